"""Publishing on the caller's own connection, and what becomes of what was staged."""
