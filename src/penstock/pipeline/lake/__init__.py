"""Tables that take each batch once: Delta or Iceberg, in folders or buckets."""

from .. import check_spark

check_spark()
