"""Topics as a target: the rows of a query become records, exactly once."""

from .. import check_spark

check_spark()
