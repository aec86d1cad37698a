"""The statements of this room in PostgreSQL."""
