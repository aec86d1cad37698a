"""Upserts: tables that hold the latest row of each key. A record without a value deletes its key.

`merge.py` merges a batch into a table, bucket by bucket, and `latest.py` chooses between two rows of a key.
"""

DELETED, BUCKET, BUCKETS = "deleted", "bucket", 16
KEY_PROPERTY = "penstock.key"  # of a table: the columns by which it is upserted
