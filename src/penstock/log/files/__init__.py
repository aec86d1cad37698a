"""The log in files: a directory of segments, written by one process and readable by many."""
