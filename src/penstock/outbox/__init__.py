"""Publishing on the caller's own connection, and moving staged events into the log."""
