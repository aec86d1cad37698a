"""Upserts: tables that hold the latest row of each key. A record without a value deletes its key.

`frame.py` prepares the rows in Spark, `merging.py` brings a batch into a table, bucket by bucket, `latest.py`
says which of two rows of a key counts, `reading.py` reads and cleans what is there, `superseded.py` tells
`reconcile` which records need not be there.
"""

DELETED, BUCKET, BUCKETS = "deleted", "bucket", 16
KEY_PROPERTY = "penstock.key"  # of a table: the columns by which it is upserted
