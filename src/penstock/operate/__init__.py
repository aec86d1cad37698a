"""One function per operation, shared by commands, console, REST and users; each returns a value."""
