"""One run of a solver: the session that reads the file and listens to signals, and the solution stream on stdout."""

from __future__ import annotations

import gc
import math
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TextIO, TypeAlias

from moccasin_mzn.solvers.flatzinc.execution import ExecutionOptions, StopFlag, seconds_since_start
from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST, Expression, FlatZinc, FlatZincError, IntSet

if TYPE_CHECKING:
    from fractions import Fraction

Objective: TypeAlias = "int | float | Fraction"
Values = Any
"""A solution, as the solver and the output items understand it."""

BOUND_INTERVAL = 1.0
"""Least number of seconds between two statistics blocks that only report a better bound."""
REPEATS = 1000
"""How often a solution may come again before enumeration is given up for blocking."""


class Item(Protocol):
    """An output item."""

    def text(self, values: Values) -> str:
        """The solver's line for a solution."""


class SolutionStream:
    """Prints solutions, statistics and the final status; may be used from several threads.

    Improving solutions are printed at once under -i and -a, else only the last one when the search ends. Solutions of
    satisfaction problems are always printed at once, each one once. `evaluate` is the objective of a solution, None if
    any solution is as good as another. `identity` is what distinguishes a solution, as small as can be, since it is
    kept; None: its text, and then the solution is kept as well.
    """

    def __init__(
        self,
        items: Sequence[Item],
        options: ExecutionOptions,
        out: TextIO,
        evaluate: Callable[[Values], Objective] | None = None,
        maximize: bool = False,
        identity: Callable[[Values], Hashable] | None = None,
    ) -> None:
        self.evaluate = evaluate
        self.identity = identity
        self.maximize = maximize
        self.options = options
        self.out = out
        self.printed = 0
        self.repeats = 0
        self.values: Values | None = None
        self.objective: Objective | None = None
        self.bound: Objective | None = None
        self.refuted = False
        """Was there a solution better than a bound? The bound is forgotten, the solution kept."""
        self.finished = False
        self._items = items
        self._seen: dict[Hashable, Values] = {}
        self._lock = threading.RLock()
        self._unprinted = ""
        self._bound_reported: Objective | None = None
        self._bound_time = -math.inf

    @property
    def wanted(self) -> float:
        """How many solutions of a satisfaction problem to print."""
        return math.inf if self.options.all_solutions else self.options.count

    @property
    def satisfied(self) -> bool:
        """Are there as many solutions as wanted? Never so when optimising."""
        return self.evaluate is None and self.printed >= self.wanted

    @property
    def flooded(self) -> bool:
        """Do far too many solutions differ in nothing that is printed?"""
        return self.repeats > REPEATS and self.repeats > 10 * self.printed

    def distinct(self, after: int) -> list[Values]:
        """What was printed of a satisfaction problem but for the first ones: identities, or else solutions."""
        return list(islice(self._seen if self.identity else self._seen.values(), after, None))

    def solution(self, values: Values, statistics: Callable[[], dict[str, Statistic]]) -> None:
        """Take a solution from the solver; one that is not better, or was printed before, is dropped."""
        with self._lock:
            if self.finished or self.satisfied or not self._improves(values):
                return
            if self.evaluate is None and self.wanted > 1 and self._is_known(values):
                return
            self.values = values
            text = self._statistics(statistics()) if self.options.statistics else ""
            block = text + self._text(values) + "----------\n"
            if self.evaluate is None or self.options.streaming:
                self._write(block)
                self.printed += 1
            else:
                self._unprinted = block

    def _is_known(self, values: Values) -> bool:
        """Was the solution printed before? If not, it is from now on."""
        identity = self.identity(values) if self.identity else self._text(values)
        if identity in self._seen:
            self.repeats += 1
            return True
        self._seen[identity] = None if self.identity else values
        return False

    def _text(self, values: Values) -> str:
        return "".join(item.text(values) for item in self._items)

    def better_bound(self, bound: Objective | None) -> None:
        """Take a bound of the objective from the solver; None, and a worse one than before, are dropped."""
        with self._lock:
            if bound is not None and (self.bound is None or (bound < self.bound) == self.maximize):
                self.bound = bound

    def report_bound(self, statistics: dict[str, Statistic]) -> None:
        """Print the bound if it has changed and the last one was not printed just now."""
        with self._lock:
            due = time.monotonic() - self._bound_time >= BOUND_INTERVAL
            if self.options.statistics and due and self.bound not in (None, self._bound_reported) and not self.finished:
                self._write(self._statistics(statistics))

    def finish(self, status: str, statistics: dict[str, Statistic]) -> None:
        """End the stream. `status` is "complete" (the search space is exhausted), "stopped" or "unbounded"; called
        twice, it does nothing."""
        with self._lock:
            if self.finished:
                return
            text, self._unprinted = self._unprinted, ""
            if status == "unbounded":
                text = "=====UNBOUNDED=====\n" if self.printed == 0 else ""
            elif self.values is None:
                text = "=====UNSATISFIABLE=====\n" if status == "complete" else "=====UNKNOWN=====\n"
            elif status == "complete" and not (self.satisfied and self.wanted == 1):
                text += "==========\n"
            self._write(text + self._statistics(statistics))
            self.finished = True

    def _improves(self, values: Values) -> bool:
        if self.evaluate is None:
            return True
        objective = self.evaluate(values)
        if self.objective is not None:
            gain = objective - self.objective
            if (gain if self.maximize else -gain) <= 0:
                return False
        self.objective = objective
        if self.bound not in (None, objective) and (objective > self.bound) == self.maximize:
            self.bound, self.refuted = None, True
        return True

    def _statistics(self, statistics: dict[str, Statistic]) -> str:
        if not self.options.statistics:
            return ""
        values: dict[str, Statistic] = {}
        if self.evaluate is not None:
            self._bound_reported, self._bound_time = self.bound, time.monotonic()
            values["objective"] = self.objective
            values["objectiveBound"] = self.bound
        return statistics_block({**values, **statistics})

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


# --- Statistics in the form that MiniZinc reads ---------------------------------------------------------------


Statistic: TypeAlias = "int | float | Fraction | str | None"
"""The value of a statistic; None: unknown."""


def statistics_block(values: Mapping[str, Statistic]) -> str:
    """`%%%mzn-stat: name=value` lines with their end mark.

    MiniZinc 2.6 gives up on a value that it cannot read, so None, infinities and integers past 64 bits are left out,
    floats have a point and strings quotes.
    """
    lines = []
    for name, value in values.items():
        text = _text(value)
        if text is not None:
            lines.append(f"%%%mzn-stat: {name}={text}\n")
    return "".join(lines) + "%%%mzn-stat-end\n"


def peak_megabytes() -> float | None:
    """The most memory that this process has had, None where it is unknown."""
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _text(value: Statistic) -> str | None:
    if isinstance(value, int):
        return str(value) if LOWEST < value < HIGHEST else None
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None:
        return None
    number = float(value)
    return f"{number:.6f}" if math.isfinite(number) and abs(number) < 1e15 else None


# --- What a FlatZinc file wants printed, and in which form ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Output:
    """A scalar, whose `sets` are None, or an array with the index sets that `output_array` asks for."""

    name: str
    elements: list[Expression]
    sets: tuple[IntSet, ...] | None
    is_bool: bool
    is_float: bool

    def text(self, numbers: Iterable[int | float]) -> str:
        """The line that gives its elements: `name = value;` or `name = arrayNd(sets, [elements]);`."""
        words = map(self._word, numbers)
        if self.sets is None:
            return f"{self.name} = {', '.join(words)};\n"
        return f"{self.name} = array{len(self.sets)}d({', '.join(map(str, self.sets))}, [{', '.join(words)}]);\n"

    def _word(self, number: int | float) -> str:
        if self.is_bool:
            return "true" if number else "false"
        return repr(float(number) + 0.0) if self.is_float else str(int(number))  # -0.0 becomes 0.0


def outputs(file: FlatZinc) -> list[Output]:
    """The output items of a file, in its order: scalars first."""
    items = [
        Output(variable.name, [variable.name], None, variable.is_bool, variable.is_float)
        for variable in file.variables.values()
        if variable.is_output
    ]
    items += [
        Output(array.name, array.elements, array.output, array.is_bool, array.is_float)
        for array in file.arrays.values()
        if array.output is not None
    ]
    return items


# --- The session: it works in a thread; this one listens to signals and reports bounds ------------------------


def read(path: str) -> FlatZinc:
    """Read and parse a file; raises `FlatZincError` if it cannot be read, and as `parse` does."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # strings may hold any bytes
            text = file.read()
    except OSError as error:
        raise FlatZincError(f"{path}: {error.strerror}") from None
    return parse(text, path)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Reading makes millions of objects that stay: looking through them again and again takes a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


RESERVE = 0.1
"""Seconds of the time limit kept for printing."""
POLL = 0.05
"""Seconds between two looks at what the solver has reported, and at signals."""


class Session(ABC):
    """A translated file together with its solver and its output, the `stream`.

    Attributes:
        failure: what has gone wrong in the solver's thread.
        sizes: statistics of the translated file.
        version: of the solver, with its name.
    """

    patience = 0.0
    """Seconds that the search may take to end once it is asked to."""

    def __init__(
        self,
        options: ExecutionOptions,
        items: Sequence[Item],
        evaluate: Callable[[Values], Objective] | None,
        maximize: bool,
        sizes: dict[str, Statistic],
        version: str,
        identity: Callable[[Values], Hashable] | None = None,
    ) -> None:
        self.options = options
        self.stream = SolutionStream(items, options, sys.stdout, evaluate, maximize, identity)
        self.sizes = sizes
        self.version = version
        self.failure: BaseException | None = None
        self.initial_time = 0.0

    @abstractmethod
    def search(self) -> None:
        """Search to the end, in the solver's thread."""

    @abstractmethod
    def conclude(self) -> int:
        """Print what the search has come to; the exit status."""

    def interrupt(self) -> None:  # noqa: B027 (not every solver can be interrupted)
        """Ask the search to end."""

    def run(self, stop: StopFlag) -> int:
        """Solve, print, and return the exit status, or end the process if the search does not stop when asked to."""
        self.initial_time = seconds_since_start()
        if self.seconds_left() == 0:
            self.stream.finish("stopped", self.last_statistics())
            return 0
        # Python handles signals in the main thread only, which therefore has to stay out of the solver.
        stop.armed = True
        thread = threading.Thread(target=self._search, daemon=True)
        thread.start()
        try:
            while thread.is_alive() and self.failure is None:
                thread.join(POLL)
                self.stream.report_bound(self.statistics())
                if stop.requested:
                    self._abandon(thread)
            if self.failure is None:
                return self.conclude()
        except BrokenPipeError:  # nobody listens any more
            _leave(1)
        print(f"error: {self.failure}", file=sys.stderr)
        return _leave(1) if thread.is_alive() else 1

    def seconds_left(self) -> float | None:
        """Seconds left of the time limit; None if absent."""
        limit = self.options.limit
        return None if limit is None else max(limit - seconds_since_start() - RESERVE, 0.0)

    def statistics(self, **counters: Statistic) -> dict[str, Statistic]:
        """Statistics at this moment, besides the objective."""
        return {
            **self.sizes,
            "initTime": self.initial_time,
            "solveTime": seconds_since_start() - self.initial_time,
            "peakMem": peak_megabytes(),
            "solverVersion": self.version,
            **counters,
        }

    def last_statistics(self) -> dict[str, Statistic]:
        """Statistics at the end of the run."""
        return self.statistics()

    def _search(self) -> None:
        try:
            self.search()
        except BaseException as error:  # reported by the main thread
            self.failure = self.failure or error

    def _abandon(self, thread: threading.Thread) -> None:
        """Stop the search; print the best solution and leave without waiting for it much longer."""
        self.interrupt()
        thread.join(self.patience)
        if thread.is_alive():
            self.stream.finish("stopped", self.last_statistics())
            _leave(0)


def run_session(make: Callable[[], Session], stop: StopFlag) -> int:
    """The exit status of a session, or of an error in the file that it is made of."""
    try:
        with without_garbage_collection():
            session = make()
    except FlatZincError as error:
        print(error, file=sys.stderr)
        return 1
    return session.run(stop)


def print_log(line: str) -> None:
    """Takes a line of the solver's log."""
    print(line, file=sys.stderr, flush=True)


def _leave(status: int) -> NoReturn:
    """End the process while the solver still works in another thread."""
    sys.stderr.flush()
    os._exit(status)
