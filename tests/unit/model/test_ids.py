import os
import subprocess
import sys
import uuid

import pytest

from penstock.model import ids
from penstock.model.ids import new_id


@pytest.mark.parametrize("now_ms", [0, 1, 1_700_000_000_123, 2**48 - 1])
@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_an_id_is_a_uuid_of_version_7_whatever_chance_gives(
    now_ms: int, byte: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "_lot", [])
    monkeypatch.setattr(os, "urandom", lambda count: bytes([byte]) * count)

    text = new_id(now_ms)

    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == now_ms
    ours = 0xFFFF_FFFF_FFFF_F000_C000_0000_0000_0000  # time, version and variant; the rest is chance
    assert parsed.int & ~ours == (~ours & (2**128 - 1) if byte else 0)


def test_ids_sort_by_their_time() -> None:
    moments = [0, 9, 10, 99_999_999_999, 100_000_000_000, 1_700_000_000_000, 1_700_000_000_001, 2**48 - 1]

    made = [new_id(ms) for ms in moments]

    assert sorted(made) == made


def test_ids_of_one_moment_differ() -> None:
    assert len({new_id(1_700_000_000_123) for _ in range(10_000)}) == 10_000


def test_parent_and_child_of_a_fork_do_not_give_out_the_same_ids() -> None:
    program = """
import os
from penstock.model.ids import new_id
new_id(5)                                  # fetches a lot of randomness, most of it not used yet
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, " ".join(new_id(5) for _ in range(200)).encode())
    os._exit(0)
os.wait()
theirs = os.read(read, 65536).decode().split()
ours = [new_id(5) for _ in range(200)]
print(len(theirs), len({*ours, *theirs}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["200", "400"]
