"""Spark reads a log, a row a record, beside the same rows in zstd Parquet; nothing is done with them.

Spark's own JDBC source is beside them: the table of the log, in two parts by partition, as many as there are
cores. PostgreSQL's driver for Java comes from Maven at the first use.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.conninfo import conninfo_to_dict

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.java_packages import JavaPackages
from bench.lakes import PARTITIONS, Rows, rows, rows_in_files, spark_with
from bench.stores import postgres, sqlite

DRIVER = JavaPackages(
    name="postgresql-jdbc",
    artifacts=(
        "org.postgresql:postgresql:42.7.4",
        "com.kohlschutter.junixsocket:junixsocket-common:2.10.1",  # our server has a Unix socket and no port
        "com.kohlschutter.junixsocket:junixsocket-native-common:2.10.1",
    ),
)
SPARK = spark_with(DRIVER)


def read_parquet(run: Run, at: Rows) -> None:
    """Read all columns of the Parquet files."""
    at.spark.read.parquet(str(at.parquet)).write.format("noop").mode("overwrite").save()


def read_log(run: Run, at: Rows) -> None:
    """Read all columns of the log."""
    at.log().write.format("noop").mode("overwrite").save()


def read_jdbc(run: Run, at: Rows) -> None:
    """Read the columns of a log from its table, by Spark's partitioned JDBC source."""
    columns = 'key, value, type, headers, "partition", "offset", timestamp_ms'
    reader = at.spark.read.format("jdbc").options(url=_jdbc_url(at.url), user="postgres", fetchsize="10000")
    # Java finds a driver by itself only among the jars that it was started with.
    reader = reader.option("driver", "org.postgresql.Driver")
    reader = reader.option("dbtable", f"(SELECT {columns} FROM penstock_log) AS rows")
    reader = reader.options(partitionColumn="partition", lowerBound="0", upperBound=str(PARTITIONS))
    reader.option("numPartitions", "2").load().write.format("noop").mode("overwrite").save()


def _jdbc_url(url: str) -> str:
    """Return the address of a database for Java."""
    asked = conninfo_to_dict(url)
    socket = f"{asked['host']}/.s.PGSQL.{asked['port']}"
    factory = "org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg"
    return f"jdbc:postgresql://localhost/{asked['dbname']}?socketFactory={factory}&socketFactoryArg={socket}"


@contextmanager
def rows_with_driver(run: Run) -> Iterator[Rows]:
    """Give the rows to Java, too. Raises NotMeasured where its driver cannot be had."""
    DRIVER.jars()
    with rows(postgres, SPARK)(run) as at:
        yield at


_DRIVER = (
    "2.0 us a row: 0.5 SQLite, 0.8 its driver's columns, 0.3 joining them into large batches, 0.4 the rest; "
    "then 0.4 us through the socket, and Java's rows"
)
_SERVER = (
    "1.6-1.9 us a row in the server (a third less in the order of the table, which is not that of offsets), "
    "1.4 its driver, most of it copying values; then 0.4 us through the socket, and Java's rows"
)
_BATCHES = (
    "2.2 us a row: finding where records begin, three copies of their bytes, their headers; "
    "then 0.4 us through the socket, and Java's rows"
)

CASE = Case(
    name="lake_read",
    about="Spark reads a log of 1 KB rows beside the same rows in Parquet, local[2]",
    records=Size(quick=300_000, full=1_000_000),
    rounds=Size(quick=3, full=3),
    variants=[
        Variant("Parquet", read_parquet, setup=rows(sqlite, SPARK)),
        Variant("SQLite log", read_log, setup=rows(sqlite, SPARK)),
        Variant("PostgreSQL log", read_log, setup=rows(postgres, SPARK)),
        Variant("log in files", read_log, setup=rows_in_files(SPARK)),
        Variant("Parquet of files", read_parquet, setup=rows_in_files(SPARK)),
        Variant("JDBC source", read_jdbc, setup=rows_with_driver),
    ],
    targets=[
        Target("sqlite", Ratio("SQLite log", "Parquet", "cpu_us"), at_most=2, cause=_DRIVER),
        Target("postgres", Ratio("PostgreSQL log", "Parquet", "cpu_us"), at_most=2, cause=_SERVER),
        Target("files", Ratio("log in files", "Parquet of files", "cpu_us"), at_most=2, cause=_BATCHES),
        Target(
            "jdbc",
            Ratio("PostgreSQL log", "JDBC source", "cpu_us"),
            at_most=0.8,
            cause="the server's share is the same for both; ours has the copy to Java besides",
        ),
    ],
)
