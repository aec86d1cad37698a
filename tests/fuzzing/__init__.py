"""Requests with some bytes changed, as many as are asked for, at every door of a `penstock serve`.

| module      | holds                                                                                 |
|-------------|---------------------------------------------------------------------------------------|
| `feeder.py` | what a door has: requests, and the right answers to them                              |
| the doors   | one each: valid requests, which of their bytes may be changed, what is a right answer |
| `run.py`    | feeds one door from several processes, with an honest client beside                   |

By hand: `python -m tests.fuzzing 1_000_000` feeds all doors one after the other, `python -m tests.fuzzing
1_000_000 kafka` one of them.
"""
