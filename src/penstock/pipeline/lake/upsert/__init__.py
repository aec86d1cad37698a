"""Upserts: tables that hold the latest row of each key. A record without a value deletes its key.

`frame.py` prepares the rows in Spark, `merging.py` merges a batch into a table, bucket by bucket, `latest.py`
chooses between two rows of a key, `reading.py` reads and cleans tables, `superseded.py` tells `reconcile`
which records a table need not hold.
"""

DELETED, BUCKET, BUCKETS = "deleted", "bucket", 16
KEY_PROPERTY = "penstock.key"  # of a table: the columns by which it is upserted
