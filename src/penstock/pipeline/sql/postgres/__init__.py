"""The statements of this room in PostgreSQL, for the Arrow driver: a transaction's settings as parameters."""
