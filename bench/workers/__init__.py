"""Workers to measure: processes of their own, as in production, on a store of ours.

A case names an engine, a job (what the handler does) and how many processes; they join once per case and idle
between the rounds, so that joining is not in the numbers. A round stages its events in an open transaction;
the measured part begins with its commit and ends when everything is handled and settled.
"""

from bench.workers.backlog import Waiting, deliver, waiting
from bench.workers.jobs import PARKED
from bench.workers.process import Seen, WorkerProcess, worker_process
from bench.workers.teams import Team, events, team

__all__ = [
    "PARKED",
    "Seen",
    "Team",
    "Waiting",
    "WorkerProcess",
    "deliver",
    "events",
    "team",
    "waiting",
    "worker_process",
]
