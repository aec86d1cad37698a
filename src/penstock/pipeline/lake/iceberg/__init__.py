"""Iceberg tables by pyiceberg: the same files, the same rules and the same identities as those of Delta.

`catalog.py` opens the catalog where tables are registered, `table.py` is one table, and `bucket_io.py` gives pyiceberg
access to the objects of a bucket.
"""

from ... import check_extra

check_extra("a lake of Iceberg tables", "iceberg", "pyiceberg")
