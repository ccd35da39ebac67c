"""The command line, as MiniZinc writes it."""

from __future__ import annotations

import argparse
import re
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
    """Read the command line, in which the file comes last; unknown flags are only warned of, on stderr.

    Exits with 2 if there is no file, or a value is none of its flag.
    """
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
    known, unknown = _known_arguments(parser, arguments[:-1])
    if unknown:
        print(f"% ignored arguments: {' '.join(unknown)}", file=sys.stderr)
    values = vars(parser.parse_args([*known, *arguments[-1:]]))
    values["limit"] = values["limit"] / 1000 if values["limit"] else None
    return Options(**values)


def _known_arguments(parser: argparse.ArgumentParser, arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments that are flags with their values, and the others, which argparse would take for these: it reads
    `-node` as `-n ode`, and the value of an unknown flag as the file."""
    actions = {name: action for action in parser._actions for name in action.option_strings}
    known, unknown, rest = [], [], list(arguments)
    while rest:
        word = rest.pop(0)
        name = word.partition("=")[0] if word.startswith("--") else re.sub(r"(?<=^-[a-z])\d+(\.\d+)?$", "", word)
        if name not in actions:
            unknown.append(word)
            continue
        known.append(word)
        if name == word and actions[name].nargs is None and rest:
            known.append(rest.pop(0))
    return known, unknown
