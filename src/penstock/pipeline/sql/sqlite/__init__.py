"""The statements of this room in SQLite, for the Arrow driver: numbered parameters."""
