"""Groups: the position of each reader in the log, and the settlement of its outcomes."""
