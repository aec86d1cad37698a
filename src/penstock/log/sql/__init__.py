"""Logs in a database, and the base of every Penstock table: connections, dialects, schema, migrations.

One folder per dialect; `dialects` finds the dialect of a URL.
"""
