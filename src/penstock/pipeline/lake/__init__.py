"""Tables that take each batch once: Delta or Iceberg, in folders or buckets."""
