"""Python's collector of cycles in a server."""

import subprocess
import sys

_PROGRAM = """
import sys
from collections import deque
from penstock.broker.process import collect_rarely

collect_rarely()
before = sys.getallocatedblocks()
under_way, most = deque(maxlen=2000), 0
for number in range(4_000_000):
    one = []
    one.append(one)
    if number % 20 == 0:
        under_way.append(one)  # so it is old before nobody has it any more
    if number % 10_000 == 0:
        most = max(most, sys.getallocatedblocks() - before)
print(most)
"""


def test_cycles_that_grew_old_are_collected_before_there_are_many() -> None:
    """A process of its own: the collector is the whole process's."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200_000
