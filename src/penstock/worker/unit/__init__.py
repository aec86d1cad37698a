"""Units of work: handlers whose writes commit together with their cursors."""
