"""gRPC: the log, its topics and its groups, as `proto/penstock_gateway.proto` describes them.

| file              | has                                                                            |
|-------------------|--------------------------------------------------------------------------------|
| `proto/`          | the description, and its compiled form (`python -m tools.protos`)              |
| `messages.py`     | the messages and services of the description, as they are at run time          |
| `methods.py`      | from a method of the description to a function of this folder                  |
| `problems.py`     | errors as a status with details                                                |
| `door.py`         | state that all calls share, and one call; `listener.py` is the port            |
| the others        | the methods, by subject                                                        |

Every rule is in the rooms below, and REST and gRPC share one function there for each act.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what clients do wrong is not for stderr; read at import
