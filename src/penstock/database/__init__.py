"""Databases: connections, dialects, statements, retries, the schema and its migrations.

One folder per dialect; `dialects` finds the dialect of a URL. The rooms above bring their own statements.
"""
