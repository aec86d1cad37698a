"""Other libraries at the same job. The scripts run in the libraries' own environments, not in ours.

Each answers words of JSON: `["install"]`, `["enqueue", count]`, `["ready"]` and `["work", count]`. Fast
settings: those that gave the least CPU per job when they were tried on this harness; see each script.
"""

from bench.rivals.talks import PGQUEUER, PROCRASTINATE, Rival, rival

__all__ = ["PGQUEUER", "PROCRASTINATE", "Rival", "rival"]
