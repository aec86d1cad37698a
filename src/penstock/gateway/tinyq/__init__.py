"""The TinyQ door: the socket of the old protocol, and the frames that a client may negotiate on it."""
