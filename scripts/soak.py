"""Random graphs and random requests about them, every answer compared with the definition: a soak.

    python scripts/soak.py --graphs 1000 --jobs 2 --keep build/soak
    python scripts/soak.py --replay 17

Each seed is one graph with some questions about it: solves with all formulations, orders and solvers, strategies,
orders of least peak, frontiers, addresses, plans on two memories, races, and inputs that are broken. A judge and an
oracle of the soak's own (`soaking.judging`, `soaking.oracle`) decide for every schedule whether it is one and what it
costs, and of every claim, optimal, infeasible or a bound, whether any schedule known refutes it. A question must leave
no process and no file behind, end with the right exit status, and print one JSON object.

A finding is kept in a folder with its files and its command line, and makes the exit status 1. With NUMBA_BOUNDSCHECK=1
compiled searches check their indices.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from soaking.crew import Plan, soak  # noqa: E402
from soaking.figures import print_figures  # noqa: E402
from soaking.trial import KINDS  # noqa: E402


def main() -> int:
    """Soak as the command line asks; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1000, metavar="N", help="how many [1000]")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the first graph; the next has S+1 [0]")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="processes that ask [2]")
    parser.add_argument("--seconds", type=float, metavar="LIMIT", help="no graph is begun after so long")
    parser.add_argument("--only", choices=sorted(KINDS), help="ask only questions of this kind")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one graph, and every question about it printed")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "soak", metavar="FOLDER", help="for findings")
    given = parser.parse_args()
    plan = Plan(given.seed, given.graphs, given.jobs, given.seconds, given.only, given.keep.resolve())
    if given.replay is not None:
        plan = Plan(given.replay, 1, 1, None, given.only, plan.keep, verbose=True)
    tally, seconds = soak(plan)
    print_figures(tally, seconds, sys.stdout)
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
