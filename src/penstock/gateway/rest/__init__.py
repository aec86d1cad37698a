"""REST: the log, its groups and the operations on them over HTTP, below `/v1`.

An operation is a row of a table (`operations.py`) that routes a call, checks its parameters, and describes
itself. Every rule is in the rooms below: an operation checks rights, translates, and calls.
"""
