"""Topics as a source for Spark: what is read, in which batches, and by which tasks."""

from .. import check_spark

check_spark()
