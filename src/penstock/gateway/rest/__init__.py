"""REST: the log, its groups and the operations on them over HTTP, below `/v1`.

| file            | has                                                                              |
|-----------------|----------------------------------------------------------------------------------|
| `operations.py` | an operation: a row of the table that routes, and describes itself               |
| `call.py`       | one call: its principal, parameters, body, and the check of its rights           |
| `bodies.py`     | bodies, bounded in bytes and time, unpacked within the same bounds               |
| `problems.py`   | errors as `application/problem+json`                                             |
| `openapi.py`    | the description that is served at `/v1/openapi.json`                             |
| the others      | the operations, by subject                                                       |

Every rule is in the rooms below: an operation checks rights, translates, and calls.
"""
