"""What differs between two answers, as a person reads it.

By hand: `python -m tests.kafka.conversation.compare HOST:PORT` prints where a broker differs from the
answers that are kept, in the form of docs/reference/kafka-differences.md; with `--keep` its answers are kept.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .script import held_with

KEPT = Path(__file__).parent / "answers.json"
OFFERED = "versions/all of them"  # each offers its own; a test of its own compares them
_ABSENT = object()


def kept() -> dict[str, Any]:
    """Return what Apache Kafka answered."""
    return json.loads(KEPT.read_text("utf-8"))  # type: ignore[no-any-return]


def keep(answers: dict[str, Any]) -> None:
    """Keep what Apache Kafka has answered, a step per line."""
    lines = (f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items())
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return for every step that differs what both say, as far as it differs."""
    found = {}
    for step in (theirs.keys() | ours.keys()) - {OFFERED}:
        one, other = dict(_leaves(theirs.get(step, "not asked"))), dict(_leaves(ours.get(step, "not asked")))
        odd = [path for path in {**one, **other} if one.get(path, _ABSENT) != other.get(path, _ABSENT)]
        if odd:
            found[step] = _shown(one, odd), _shown(other, odd)
    return found


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from _leaves(each, f"{path}[{number}]")
    else:
        yield path, value


def _shown(leaves: dict[str, Any], odd: list[str]) -> str:
    """Return the values at some places, each after the last name of its place."""
    said: dict[str, list[str]] = {}
    for path in odd:
        if path in leaves:
            name = re.sub(r"\[\d+\]$", "", path.rpartition(".")[2])
            said.setdefault(name, []).append(str(leaves[path]))
    texts = [f"{name} {', '.join(values)}".strip() for name, values in said.items()]
    return "; ".join(texts).replace("|", "/").replace("\n", " ") or "-"


def main() -> None:
    """Hold the conversation with a broker and print or keep what it says."""
    answers = held_with(sys.argv[1])
    if "--keep" in sys.argv:
        keep(answers)
        return
    for step, (theirs, ours) in sorted(differences(kept(), answers).items()):
        print(f"| {step} | {theirs} | {ours} |")


if __name__ == "__main__":
    main()
