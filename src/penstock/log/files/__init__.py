"""The log in files: a directory of segments that one process writes and many may read."""
