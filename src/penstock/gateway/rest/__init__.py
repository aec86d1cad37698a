"""REST: the log, its groups and the operations on them over HTTP, below `/v1`.

| file            | has                                                                              |
|-----------------|----------------------------------------------------------------------------------|
| `operations.py` | what an operation is: a row of the table that routes, and describes itself       |
| `call.py`       | one call: who asks, its parameters, its body, and whether that is allowed        |
| `bodies.py`     | bodies as they come: bounded in bytes and time, unpacked within the same bounds  |
| `problems.py`   | errors as `application/problem+json`                                             |
| `openapi.py`    | the description that is served at `/v1/openapi.json`                             |
| the others      | the operations, by what they are about                                           |

Every rule is in the rooms below: an operation checks who asks, translates, and calls.
"""
