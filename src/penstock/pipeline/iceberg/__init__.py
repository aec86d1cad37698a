"""Iceberg tables by pyiceberg: the same files, the same rules and the same identities as those of Delta.

`catalog.py` says where tables are known by name, `table.py` is one of them, `columns.py` its columns as
Arrow, `joining.py` joins small files, `files.py` tells what its snapshots point to, for who removes the rest,
and `bucket_io.py` is how pyiceberg reaches the objects of a bucket.
"""
