"""Every API that the broker serves, by its key, with the versions it has.

The set follows the requests of real clients (docs/reference/kafka.md): it stays below the versions that name topics by
id, and has only the first request of the newer consumer group protocol, to refuse it. Produce is offered from version
0, whose record format is refused: otherwise librdkafka before 2.1 silently does not compress.
"""

from ..layout import Api
from . import cluster, groups, records, security, topics, transactions

_MODULES = (cluster, groups, records, security, topics, transactions)
APIS: dict[int, Api] = {
    each.key: each
    for each in sorted(
        (value for module in _MODULES for value in vars(module).values() if isinstance(value, Api)),
        key=lambda api: api.key,
    )
}
