"""Compares the tables of a lake to the log, for `reconcile`."""
