"""The statements of this room in SQLite."""
