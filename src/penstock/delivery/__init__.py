"""Groups: where each reader is in the log, and how its outcomes are settled."""
