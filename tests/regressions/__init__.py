"""Known bugs of the libraries that Penstock learned from; none of them may come back.

Tests of the same kind stand beside their rooms where a unit test is enough: retries and their delays in
`tests/unit/model` and `tests/unit/delivery`, the names of handlers in `tests/unit/worker/test_binding.py`.
"""
