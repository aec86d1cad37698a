"""SQLite: the embedded default; one file, many processes, one writer at a time."""
