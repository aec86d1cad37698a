"""PostgreSQL 14 and later, and databases that speak its protocol."""
