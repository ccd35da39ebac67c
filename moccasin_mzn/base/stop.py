"""Criteria that end a search, for `stop=` of the package's functions. ::

    import moccasin_mzn as mz

    mz.solve(graph, 0.8, stop=mz.stop.TimeLimit(60))
    mz.solve(graph, 0.8, stop=[mz.stop.Gap(0.01), mz.stop.NoImprovement(10)])  # the first that is met ends it
    mz.solve(graph, 0.8, stop=mz.stop.Iterations(1_000_000), threads=1, seed=0)  # the same result every time

A `threading.Event` is a criterion too: the search ends soon after it is set, from another thread or from `on_progress`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import TypeAlias

from moccasin_mzn.base.checks import check_time_limit, plain, sequence
from moccasin_mzn.base.errors import InputError, shown

__all__ = ["Criterion", "Gap", "Iterations", "NoImprovement", "Stop", "TimeLimit"]

MOST_ITERATIONS = 10**15
"""Largest number of iterations: years of search."""


@dataclass(frozen=True)
class TimeLimit:
    """End after this many seconds of wall-clock time.

    Raises:
        InputError: it is no positive number.
    """

    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds, "TimeLimit")
        object.__setattr__(self, "seconds", plain(self.seconds))


@dataclass(frozen=True)
class Gap:
    """End when the gap, (value - bound) / value, is at most this fraction.

    Raises:
        InputError: it is not from 0 to below 1.
    """

    fraction: float

    def __post_init__(self) -> None:
        fraction = plain(self.fraction)
        if type(fraction) not in (int, float) or not 0 <= fraction < 1:
            raise InputError(f"stop: Gap({shown(self.fraction)}) is not a fraction, from 0 to below 1")
        object.__setattr__(self, "fraction", fraction)


@dataclass(frozen=True)
class Iterations:
    """End after this many iterations, and not by the clock: the same seed then gives the same result on any machine.

    In `solve` an iteration is one move of local search, rounded up to whole chunks of moves; bounds get an amount of
    work in proportion. In `order` it is one turn of a method.

    Raises:
        InputError: it is no positive integer.
    """

    count: int

    def __post_init__(self) -> None:
        if self.count is None:
            raise InputError("stop: Iterations(None): expected a number of iterations")
        check_iterations(self.count)
        object.__setattr__(self, "count", plain(self.count))


@dataclass(frozen=True)
class NoImprovement:
    """End when there is an answer and none better has been found for this many seconds; bounds do not count.

    Raises:
        InputError: it is no positive number.
    """

    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds, "NoImprovement")
        object.__setattr__(self, "seconds", plain(self.seconds))


Criterion: TypeAlias = TimeLimit | Gap | Iterations | NoImprovement | Event
Stop: TypeAlias = Criterion | Sequence[Criterion]
"""One criterion, or several; the first that is met ends the search."""


@dataclass(frozen=True)
class Criteria:
    """What ends one call: the strictest criterion of each kind, and all events."""

    time_limit: float | None = None
    """Seconds."""
    gap: float | None = None
    """A fraction of the value."""
    iterations: int | None = None
    no_improvement: float | None = None
    """Seconds."""
    events: tuple[Event, ...] = ()

    @classmethod
    def of(
        cls, stop: object, time_limit: float | None = None, until_gap: float | None = None,
        default: float | None = None,
    ) -> Criteria:  # fmt: skip
        """Read `stop=` and its shorthands.

        Args:
            stop: see `Stop`; None: no further criterion.
            time_limit: the argument of that name, in seconds.
            until_gap: likewise, a fraction.
            default: the time limit that stands for one that is not given.

        Raises:
            InputError: there is something else among the criteria, or a shorthand contradicts one.
        """
        check_time_limit(time_limit)
        given = () if stop is None else (stop,) if isinstance(stop, Criterion) else sequence(stop, "stop", _EXPECTED)
        for one in given:
            if not isinstance(one, Criterion):
                raise InputError(f"stop: expected {_EXPECTED}, got {shown(one)}")
        seconds = min((one.seconds for one in given if isinstance(one, TimeLimit)), default=None)
        fraction = max((one.fraction for one in given if isinstance(one, Gap)), default=None)
        _refuse_other("time limit", "TimeLimit", seconds, None if time_limit == default else time_limit)
        _refuse_other("until gap", "Gap", fraction, until_gap)
        return cls(
            time_limit if seconds is None else seconds,
            until_gap if fraction is None else fraction,
            min((one.count for one in given if isinstance(one, Iterations)), default=None),
            min((one.seconds for one in given if isinstance(one, NoImprovement)), default=None),
            tuple(one for one in given if isinstance(one, Event)),
        )

    def refuse(self, where: str, *names: str) -> None:
        """Refuse criteria that a function cannot keep to.

        Args:
            where: the function, and why it cannot.
            names: fields of this class.

        Raises:
            InputError: one of them is given.
        """
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(f"stop: {_NAMES[name]} is not for {where}")


_EXPECTED = "TimeLimit, Gap, Iterations or NoImprovement of moccasin_mzn.stop, a threading.Event, or a sequence of them"
_NAMES = {
    "time_limit": "TimeLimit", "gap": "Gap", "iterations": "Iterations", "no_improvement": "NoImprovement",
}  # fmt: skip


def check_iterations(count: object) -> None:
    """Check a number of iterations; None: no limit.

    Raises:
        InputError: it is no positive integer, or far too large.
    """
    number = plain(count)
    if number is not None and (type(number) is not int or not 1 <= number <= MOST_ITERATIONS):
        raise InputError(f"iterations {shown(count)} is not an integer from 1 to {MOST_ITERATIONS}")


def _check_seconds(seconds: object, name: str) -> None:
    if seconds is None:
        raise InputError(f"stop: {name}(None): expected a number of seconds")
    check_time_limit(seconds)  # type: ignore[arg-type]  # it refuses all else


def _refuse_other(what: str, name: str, criterion: float | None, given: float | None) -> None:
    if criterion is not None and given is not None and criterion != given:
        raise InputError(f"stop: {name}({criterion}) and {what} {given} contradict each other, give one of them")
