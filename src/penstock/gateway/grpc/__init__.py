"""gRPC: the log, its topics and its groups, as `proto/penstock_gateway.proto` describes them.

`proto/` has the description and its compiled form (`python -m tools.protos`). Every rule is in the rooms below,
and REST and gRPC share one function there for each act.
"""

import os
from importlib.util import find_spec

from penstock.errors import MissingExtra

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what clients do wrong is not for stderr; read at import

try:
    complete = all(find_spec(name) for name in ("google.protobuf", "google.rpc", "grpc_health", "grpc_reflection"))
except ModuleNotFoundError:  # there is no package `google`
    complete = False
if not complete:
    raise MissingExtra("serving gRPC", "grpc")
