"""Criteria that end a search, for `stop=` of the package's functions. ::

    import moccasin_mzn as mz

    mz.solve(graph, 0.8, stop=mz.stop.TimeLimit(60))
    mz.solve(graph, 0.8, stop=[mz.stop.Gap(0.01), mz.stop.NoImprovement(10)])  # the first that is met ends it
    mz.solve(graph, 0.8, stop=mz.stop.Iterations(1_000_000), threads=1, seed=0)  # the same result every time
    mz.solve(graph, 0.8, stop=lambda state: state.seconds > 60 and state.value is not None)  # one of your own

A `threading.Event` stands for a criterion too: the search ends soon after it is set, from another thread or from
`on_progress`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Protocol, TypeAlias

from moccasin_mzn.base.checks import check_time_limit, plain, sequence
from moccasin_mzn.base.errors import InputError, shown

__all__ = ["Criterion", "Gap", "Iterations", "NoImprovement", "State", "Stop", "TimeLimit"]

MOST_ITERATIONS = 10**15
"""Largest number of iterations: years of search."""


@dataclass(frozen=True)
class State:
    """The state of a search, as criteria see it."""

    seconds: float
    """Seconds since the function was called."""
    value: int | None
    """The value of the best answer so far: a duration or another objective, a peak, the size of an arena; None while
    there is no answer."""
    bound: int
    """The lower bound on the value of all answers."""
    unimproved: float | None
    """Seconds since the best answer was found; None while there is no answer."""

    @property
    def gap(self) -> float | None:
        """(value - bound) / value, a fraction; None without an answer."""
        if self.value is None:
            return None
        return (self.value - self.bound) / self.value if self.value else 0.0


class Criterion(Protocol):
    """A criterion that ends a search: anything that is called with a `State`. `TimeLimit`, `Gap` and `NoImprovement`
    are such criteria; a function or a class with `__call__` of your own is one too."""

    def __call__(self, state: State, /) -> bool:
        """Return whether the search is to end, with the best answer so far.

        It is called up to twenty times a second, by any thread of the search, by one at a time. What it raises ends
        the search and is raised by the function that was called, as soon as everything has been stopped.
        """


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

    def __call__(self, state: State, /) -> bool:
        return state.seconds >= self.seconds


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

    def __call__(self, state: State, /) -> bool:
        return state.gap is not None and state.gap <= self.fraction


@dataclass(frozen=True)
class Iterations:
    """End after this many iterations, and not by the clock: the same seed then gives the same result on any machine.

    It is no `Criterion` but an amount of work, which the search divides among its steps. In `solve` an iteration is one
    move of local search, rounded up to whole chunks of moves; bounds get an amount of work in proportion. In `order` it
    is one turn of a method.

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

    def __call__(self, state: State, /) -> bool:
        return state.unimproved is not None and state.unimproved > self.seconds

    def __str__(self) -> str:
        return f"NoImprovement({self.seconds:g})"


Stop: TypeAlias = Criterion | Iterations | Event | Sequence[Criterion | Iterations | Event]
"""One criterion, or several; the first that is met ends the search."""


@dataclass(frozen=True)
class Criteria:
    """What ends one call: the strictest limit of each kind, and all criteria that are asked while the search runs."""

    time_limit: float | None = None
    """Seconds."""
    gap: float | None = None
    """A fraction of the value."""
    iterations: int | None = None
    asked: tuple[Criterion, ...] = ()
    """`NoImprovement`, and criteria of the caller's own."""
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
        given = () if stop is None else (stop,) if _is_one(stop) else sequence(stop, "stop", _EXPECTED)
        for one in given:
            if not _is_one(one):
                raise InputError(f"stop: expected {_EXPECTED}, got {shown(one)}")
        seconds = min((one.seconds for one in given if isinstance(one, TimeLimit) and _is_asked_as(one, TimeLimit)),
                      default=None)  # fmt: skip
        fraction = max((one.fraction for one in given if isinstance(one, Gap) and _is_asked_as(one, Gap)), default=None)
        _refuse_other("time limit", "TimeLimit", seconds, None if time_limit == default else time_limit)
        _refuse_other("until gap", "Gap", fraction, until_gap)
        return cls(
            time_limit if seconds is None else seconds,
            until_gap if fraction is None else fraction,
            min((one.count for one in given if isinstance(one, Iterations)), default=None),
            tuple(one for one in given if callable(one) and not _is_asked_as(one, TimeLimit, Gap)),
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
            if getattr(self, name) not in (None, ()):
                what = _NAMES[name] if name in _NAMES else name_of(self.asked[0]).partition("(")[0]
                raise InputError(f"stop: {what} is not for {where}")


_EXPECTED = (
    "TimeLimit, Gap, Iterations or NoImprovement of moccasin_mzn.stop, a function of the state, a threading.Event, or "
    "a sequence of them"
)
_NAMES = {"time_limit": "TimeLimit", "gap": "Gap", "iterations": "Iterations"}


def _is_one(given: object) -> bool:
    """Return whether it is a criterion or stands for one; a class is not, such as `Gap` without its fraction."""
    return isinstance(given, Iterations | Event) or (callable(given) and not isinstance(given, type))


def _is_asked_as(criterion: object, *kinds: type) -> bool:
    """Return whether it is of one of these classes, and no subclass of it that is called in a way of its own."""
    return any(isinstance(criterion, kind) and _call_of(type(criterion)) is _call_of(kind) for kind in kinds)


def _call_of(kind: type) -> object:
    return next((vars(one)["__call__"] for one in kind.__mro__ if "__call__" in vars(one)), None)


def name_of(criterion: Criterion) -> str:
    """Return what a result names as having ended the search: "NoImprovement(10)", or the name of a function or class
    of the caller's."""
    if _is_asked_as(criterion, NoImprovement):
        return str(criterion)
    name = str(getattr(criterion, "__name__", type(criterion).__name__))
    return name if name.isidentifier() else "a criterion of the caller's"


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
