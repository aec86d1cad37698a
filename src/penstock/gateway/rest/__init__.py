"""REST: the log, its groups and the operations on them over HTTP, below `/v1`.

| file            | has                                                                              |
|-----------------|----------------------------------------------------------------------------------|
| `operations.py` | an operation: a row of the table that routes, and describes itself               |
| `call.py`       | one call: its principal, parameters, body, and the check of its rights           |
| `requests.py`   | parameters, and bodies, bounded in bytes and time, as they were sent             |
| `problems.py`   | errors as `application/problem+json`                                             |
| the others      | the operations, by subject                                                       |

Every rule is in the rooms below: an operation checks rights, translates, and calls.
"""
