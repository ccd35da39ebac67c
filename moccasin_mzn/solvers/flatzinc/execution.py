"""A solver as an executable: its command line, as MiniZinc writes it, its clock, and what ends a run."""

from __future__ import annotations

import _thread
import argparse
import os
import re
import signal
import sys
import threading
import time
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from typing import Any, TypeVar


def _flag(flag: str, default: object, help_text: str, **reading: object) -> Any:
    """A field that a flag sets; `reading` as for argparse, without any it is a switch."""
    reading = reading or {"action": "store_true"}
    return field(default=default, metadata={"flag": flag, "help": help_text, "default": default, **reading})


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """What was asked for on the command line, in which `limit` is in milliseconds; here it is in seconds."""

    path: str
    """The FlatZinc file."""
    all_solutions: bool = _flag("-a", False, "all, or all improving, solutions")
    intermediate: bool = _flag("-i", False, "print improving solutions when found")
    count: int = _flag("-n", 1, "stop after N solutions of a satisfaction problem", type=int, metavar="N")
    free: bool = _flag("-f", False, "free search: annotations only hint at values")
    workers: int | None = _flag(
        "-p", None, "number of workers (default: all cores, or one that follows search annotations, if the solver can)",
        type=int, metavar="N",
    )  # fmt: skip
    seed: int | None = _flag("-r", None, "random seed", type=int, metavar="N")
    statistics: bool = _flag("-s", False, "print statistics")
    verbose: bool = _flag("-v", False, "log the search on stderr")
    limit: float | None = _flag("-t", None, "milliseconds from the start of the process", type=float, metavar="MS")
    params: str = ""
    """Parameters of the solver, in its own form; they overrule all else."""

    @property
    def streaming(self) -> bool:
        """Print improving solutions at once?"""
        return self.all_solutions or self.intermediate

    @property
    def enumerates(self) -> bool:
        """Is more than one solution of a satisfaction problem wanted?"""
        return self.all_solutions or self.count > 1


AnyOptions = TypeVar("AnyOptions", bound=ExecutionOptions)


def parse_options(arguments: list[str]) -> ExecutionOptions:
    """The command line of CP-SAT, read by `read_options`."""
    parser = standard_parser("python -m moccasin_mzn.solvers.cpsat", "Solve a FlatZinc file with CP-SAT.")
    parser.add_argument("--params", default="", metavar="TEXT", help='CP-SAT parameters, "num_workers:4 ..."')
    return read_options(parser, arguments, ExecutionOptions)


def standard_parser(program: str, description: str) -> argparse.ArgumentParser:
    """A parser of the file and of the flags that MiniZinc knows."""
    parser = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    for one in fields(ExecutionOptions):
        if one.metadata:
            reading = dict(one.metadata)
            parser.add_argument(reading.pop("flag"), f"--{one.name.replace('_', '-')}", **reading)
    parser.add_argument("path", metavar="FILE.fzn")
    return parser


def read_options(parser: argparse.ArgumentParser, arguments: list[str], kind: type[AnyOptions]) -> AnyOptions:
    """Read a command line, in which the file comes last; unknown flags are only warned of, on stderr.

    Exits with 2 if there is no file, or a value does not suit its flag.
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


# --- Time since the process started, which is when MiniZinc started to count ----------------------------------


_LOADED = time.monotonic()


def seconds_since_start() -> float:
    """Seconds since the operating system created the process; where it is unknown, since this module was loaded."""
    return time.monotonic() - _LOADED + _age_when_loaded()


@cache
def _age_when_loaded() -> float:
    """Seconds between the creation of the process and the loading of this module, 0 if unknown."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started - (time.monotonic() - _LOADED))
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0


# --- Signals and time limits that end a run -------------------------------------------------------------------


class Interrupted(BaseException):
    """A signal came, or the time was up, before there was anything to print; nothing that catches errors catches it."""


class StopFlag:
    """Set by SIGINT and SIGTERM. Until `armed` is true a signal raises `Interrupted` instead."""

    def __init__(self) -> None:
        self.requested = False
        self.armed = False
        signal.signal(signal.SIGINT, self._handle)
        signal.signal(signal.SIGTERM, self._handle)

    def set_after(self, seconds: float) -> None:
        """Act as if SIGINT came after this time, which reading a large file and CP-SAT's presolve ignore."""
        timer = threading.Timer(max(seconds, 0.0), _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    def _handle(self, number: int, frame: object) -> None:
        self.requested = True
        if not self.armed:
            raise Interrupted


def execute(options: ExecutionOptions, module: str) -> int:
    """The exit status of the module's `run`: 0 too if a signal or the time limit ends it before there is a solution.

    Importing the module takes time, in which signals already count. Some libraries swallow what is raised meanwhile, or
    turn it into errors of their own.
    """
    stop = StopFlag()
    try:
        if options.limit is not None:
            stop.set_after(options.limit - seconds_since_start())
        run = import_module(module).run
        if stop.requested:
            raise Interrupted
        return run(options, stop)
    except BrokenPipeError:  # nobody listens any more
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (open until the end)
        return 1
    except (Interrupted, Exception):
        if not stop.requested or stop.armed:
            raise
        print("=====UNKNOWN=====", flush=True)
        return 0
