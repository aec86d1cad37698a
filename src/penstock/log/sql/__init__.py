"""Logs in a database, and what every Penstock table shares: connections, dialects, schema, migrations.

One folder per dialect; `dialects` finds the one a URL means.
"""
