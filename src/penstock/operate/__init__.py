"""One function per operation that commands, console, REST and users share; they return values."""
