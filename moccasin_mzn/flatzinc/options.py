"""The command line, as MiniZinc writes it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line.

    Attributes:
        path: the FlatZinc file.
        all_solutions: all solutions of a satisfaction problem, all improving ones of an optimisation problem (-a).
        intermediate: print every improving solution as it is found (-i).
        count: how many solutions of a satisfaction problem to print (-n).
        free: search as CP-SAT likes; search annotations only hint at values (-f).
        workers: number of CP-SAT workers (-p); None for one a core, or a single one if there are search annotations
            to follow.
        seed: random seed (-r).
        statistics, verbose: -s, -v.
        limit: seconds from the start of the process (-t gives milliseconds), or None.
        params: CP-SAT parameters as text protocol buffer; they overrule all else.
    """

    path: str
    all_solutions: bool = False
    intermediate: bool = False
    count: int = 1
    free: bool = False
    workers: int | None = None
    seed: int | None = None
    statistics: bool = False
    verbose: bool = False
    limit: float | None = None
    params: str = ""

    @property
    def streaming(self) -> bool:
        """Print improving solutions at once?"""
        return self.all_solutions or self.intermediate

    @property
    def enumerates(self) -> bool:
        """Is more than one solution of a satisfaction problem wanted?"""
        return self.all_solutions or self.count > 1


def parse_options(arguments: list[str]) -> Options:
    """Read the command line; unknown flags are only warned of, on stderr. Exits with 2 if there is no file."""
    parser = argparse.ArgumentParser(
        prog="python -m moccasin_mzn.flatzinc", description="Solve a FlatZinc file with CP-SAT.", allow_abbrev=False
    )
    parser.add_argument("-a", "--all-solutions", action="store_true", help="all, or all improving, solutions")
    parser.add_argument("-i", "--intermediate", action="store_true", help="print improving solutions when found")
    parser.add_argument("-n", "--count", type=int, default=1, metavar="N", help="stop after N solutions")
    parser.add_argument("-f", "--free", action="store_true", help="free search: annotations only hint at values")
    parser.add_argument(
        "-p",
        "--workers",
        type=int,
        metavar="N",
        help="number of workers (default: all cores, or one to follow search annotations)",
    )
    parser.add_argument("-r", "--seed", type=int, metavar="N", help="random seed")
    parser.add_argument("-s", "--statistics", action="store_true", help="print statistics")
    parser.add_argument("-v", "--verbose", action="store_true", help="log the search on stderr")
    parser.add_argument("-t", "--limit", type=float, metavar="MS", help="milliseconds from the start of the process")
    parser.add_argument("--params", default="", metavar="TEXT", help='CP-SAT parameters, "num_workers:4 ..."')
    parser.add_argument("path", metavar="FILE.fzn")
    known, unknown = parser.parse_known_args(arguments)
    if unknown:
        print(f"% ignored arguments: {' '.join(unknown)}", file=sys.stderr)
    values = vars(known)
    values["limit"] = known.limit / 1000 if known.limit else None
    return Options(**values)
