"""Starts one command, waits for it and writes down what it cost. Run as a file; standard library only.

Why a process in between: Linux lets a new process inherit the memory peak of the one that started it, so a
peer started straight from the benchmark would seem at least as large as the benchmark.

Arguments: where to write, then the command.
"""

import json
import os
import sys
import time


def main() -> None:
    """Run the command and write its exit code, seconds and memory peak."""
    report, *command = sys.argv[1:]
    started = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    cost = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "wall_seconds": time.perf_counter() - started,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "rss_peak_mb": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1_000_000,
    }
    with open(report, "w", encoding="utf-8") as file:
        json.dump(cost, file)


if __name__ == "__main__":
    main()
