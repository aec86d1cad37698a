"""Feeds the doors by hand; see the package."""

import sys

from tests.fuzzing.run import FEEDERS, p99_ms, run


def by_hand(cases: int, doors: list[str]) -> int:
    """Feed each door with so many requests, and tell how it went; return the exit code."""
    code = 0
    for door in doors:
        course = run(door, cases)
        before, after = course.memory[0] / 1e6, course.memory[-1] / 1e6
        print(
            f"{door}: {course.fed.cases:,} cases, {course.fed.answered:,} answered; "
            f"memory {before:.1f} MB after a tenth, {after:.1f} MB at the end; "
            f"{len(course.honest):,} honest rounds, p99 {p99_ms(course.honest):.1f} ms"
        )
        for each in course.complaints[:10]:
            code = 1
            print(f"{door}: its log says: {each}")
    return code


if __name__ == "__main__":
    sys.exit(by_hand(int(sys.argv[1]), sys.argv[2:] or list(FEEDERS)))
