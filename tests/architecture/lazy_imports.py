"""Imports inside functions: fine for cost, not for hiding a knot, so each is counted and has its reason."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.source import imports, modules

Table = Mapping[str, tuple[int, str]]

COUNTED: Table = {
    "__init__.py": (1, "most of the house comes with it, and a process of Spark that imports us needs none of that"),
    "access/certificates.py": (3, "an extra: for lists of revoked ones, and where TLS gives no more than the text"),
    "access/json_web_token.py": (1, "an extra: only who takes JSON Web Tokens has PyJWT"),
    "access/dev_certificates.py": (3, "an extra: only who tries TLS makes certificates"),
    "cli/__init__.py": (2, "a command is imported when it is called: `penstock --version` stays quick"),
    "cli/demo.py": (3, "only its lake needs Spark, only its reader a Kafka client: a machine may have none"),
    "cli/pipeline.py": (5, "Spark, Arrow and Delta are optional, and slow to import: help must not wait"),
    "cli/pipeline_course.py": (3, "the gateway is optional: only --http needs it"),
    "cli/pipeline_options.py": (5, "as cli/pipeline.py"),
    "cli/pipeline_reset.py": (10, "as cli/pipeline.py"),
    "cli/pipeline_upkeep.py": (5, "as cli/pipeline.py"),
    "cli/lake.py": (3, "only a lake needs Arrow and Delta"),
    "cli/console.py": (4, "only who serves the console needs the extra for it"),
    "cli/serve.py": (9, "as cli/worker.py"),
    "cli/listeners.py": (2, "as cli/worker.py"),
    "cli/service.py": (5, "an extra: only who sends spans has the exporter, and it is slow to import"),
    "cli/worker.py": (2, "only a worker that serves HTTP needs the extra for it"),
    "gateway/application.py": (1, "only who serves REST needs what answers for it"),
    "gateway/__init__.py": (1, "an extra: the room can be imported without Starlette, and says so when used"),
    "cli/reload.py": (1, "an extra: only who develops has the package that watches files"),
    "django/handler_connection.py": (3, "only a project on PostgreSQL has its driver"),
    "operate/kafka_cluster.py": (4, "an extra: only who asks a Kafka cluster needs a client of it"),
    "log/store.py": (5, "a log in files, and one that serves Kafka clients, need an extra for the codec"),
    "database/dialects.py": (3, "a dialect brings its driver, and only one is needed"),
    "database/url.py": (2, "only libpq knows its options, and only a program on PostgreSQL has it"),
    "model/avro.py": (2, "an extra: only a program with events in Avro has fastavro"),
    "model/protobuf.py": (6, "an extra: only a program with Protobuf messages has their library"),
    "operate/store_doctor.py": (1, "as log/store.py: files are looked at only where there are some"),
    "outbox/adapters/__init__.py": (1, "an adapter brings its driver; the connection says which one"),
    "outbox/publisher.py": (1, "only a program with tracked models has SQLAlchemy"),
    "pipeline/__init__.py": (5, "a task of Spark imports the room, and needs no part of its face"),
    "pipeline/source/fetch/__init__.py": (4, "a fetcher brings its driver; the address says which one"),
    "pipeline/backfill.py": (2, "only a Kafka cluster needs the codec of its batches"),
    "pipeline/lake/iceberg/catalog.py": (2, "only a catalog in PostgreSQL needs its driver"),
    "pipeline/lake/kinds.py": (1, "pyiceberg is optional"),
    "pipeline/lake/sink.py": (1, "pyiceberg is optional"),
    "pipeline/source/data_source.py": (2, "reading loads no writer"),
    "pipeline/lake/storage/__init__.py": (2, "obstore is optional: only a lake in an object store needs it"),
    "pipeline/lake/storage/local.py": (1, "paths are looked at before Arrow is needed, by commands, too"),
    "pipeline/lake/typed/classes.py": (1, "pydantic is optional"),
    "pipeline/source/opening.py": (1, "as pipeline/backfill.py"),
    "testing/lab/commits.py": (2, "drivers that a handler turned out to use; a machine may have none"),
    "testing/lab/worlds.py": (2, "only worlds on a server need its driver"),
    "tracing.py": (2, "OpenTelemetry is optional and slow to import"),
}


def breaches(root: Path, counted: Table) -> Iterator[str]:
    """Yield one sentence for each file whose imports inside functions are not those of the table."""
    found = Counter(
        path.relative_to(root).as_posix()
        for path in [root / "__init__.py", *modules(root)]
        if path.exists()
        for line in {each.line for each in imports(path, root) if each.lazy}
    )
    for file in sorted(found.keys() | counted.keys()):
        wanted, reason = counted.get(file, (0, ""))
        if found[file] != wanted:
            yield f"{file} has {found[file]} imports inside functions, the table says {wanted}"
        elif not reason:
            yield f"{file} has no reason in the table"
