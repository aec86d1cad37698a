"""PostgreSQL 14 and later, and what speaks its protocol."""
