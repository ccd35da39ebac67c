"""The command line, as MiniZinc writes it."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line.

    Attributes:
        path: the FlatZinc file.
        all_solutions: all solutions of a satisfaction problem, all improving ones of an optimisation problem (-a).
        intermediate: print every improving solution as it is found (-i).
        count: how many solutions of a satisfaction problem to print (-n).
        free: search as the solver likes; search annotations only hint at values (-f).
        workers: number of workers (-p); None for what the solver does by itself.
        seed: random seed (-r).
        statistics, verbose: -s, -v.
        limit: seconds from the start of the process (-t gives milliseconds), or None.
        params: parameters of the solver, in its own form; they overrule all else.
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


AnyOptions = TypeVar("AnyOptions", bound=Options)


def parse_options(arguments: list[str]) -> Options:
    """The command line of CP-SAT, read by `read_options`."""
    parser = standard_parser("python -m moccasin_mzn.solvers.cpsat", "Solve a FlatZinc file with CP-SAT.")
    parser.add_argument("--params", default="", metavar="TEXT", help='CP-SAT parameters, "num_workers:4 ..."')
    return read_options(parser, arguments, Options)


def standard_parser(program: str, description: str) -> argparse.ArgumentParser:
    """A parser of the file and of the flags that MiniZinc knows."""
    parser = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    parser.add_argument("-a", "--all-solutions", action="store_true", help="all, or all improving, solutions")
    parser.add_argument("-i", "--intermediate", action="store_true", help="print improving solutions when found")
    parser.add_argument("-n", "--count", type=int, default=1, metavar="N", help="stop after N solutions")
    parser.add_argument("-f", "--free", action="store_true", help="free search: annotations only hint at values")
    parser.add_argument(
        "-p",
        "--workers",
        type=int,
        metavar="N",
        help="number of workers (default: all cores, or one that follows search annotations, if the solver can)",
    )
    parser.add_argument("-r", "--seed", type=int, metavar="N", help="random seed")
    parser.add_argument("-s", "--statistics", action="store_true", help="print statistics")
    parser.add_argument("-v", "--verbose", action="store_true", help="log the search on stderr")
    parser.add_argument("-t", "--limit", type=float, metavar="MS", help="milliseconds from the start of the process")
    parser.add_argument("path", metavar="FILE.fzn")
    return parser


def read_options(parser: argparse.ArgumentParser, arguments: list[str], kind: type[AnyOptions]) -> AnyOptions:
    """Read a command line, in which the file comes last; unknown flags are only warned of, on stderr.

    Exits with 2 if there is no file, or a value is none of its flag.
    """
    known, unknown = _known_arguments(parser, arguments[:-1])
    if unknown:
        print(f"% ignored arguments: {' '.join(unknown)}", file=sys.stderr)
    values = vars(parser.parse_args([*known, *arguments[-1:]]))
    values["limit"] = values["limit"] / 1000 if values["limit"] else None
    return kind(**values)


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
