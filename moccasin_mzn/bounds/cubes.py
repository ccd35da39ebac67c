"""Cubes: schedules parted by what is held at stages of a relaxation, each part with a bound of its own.

::

    all                                bound 4,684     the least of those below
    |-- 236 held at 239                bound 4,857
    `-- 236 not held at 239
        |-- 221 held at 222            bound 4,684
        `-- 221 not held at 222        bound 4,930

A question that is hard as a whole is often easy in parts (cube and conquer: Heule et al., 2011): what takes CP-SAT 28 s
at RL G3 takes it 14 s in two parts, which two workers share. The parts stay for the questions that follow and for finer
relaxations, since what is proven of them is proven of schedules. `parting` says by what to part.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field

from moccasin_mzn.bounds.relaxation import Relaxation


@dataclass(eq=False)
class Cube:
    """Some of the schedules."""

    bound: int
    """Recomputations of none of them cost less."""
    held: tuple[tuple[int, int, bool], ...] = ()
    """(k, u, is u in memory while k is computed for the first time?), which hold of all of them."""
    whole: bool = False
    """Is nothing known to part it by?"""
    taken: bool = field(default=False, repr=False)
    """Does a worker work at it?"""

    def of(self, relaxation: Relaxation) -> Relaxation:
        """The relaxation, of stages among which are those of the cube, for the cube alone."""
        part = copy(relaxation)
        part.clauses = [*relaxation.clauses]
        for k, u, is_held in self.held:
            literal = part.held[part.chosen.index(k)].get(u)
            if is_held:
                part.clause((literal,))
            else:
                part.clause((), premise=literal)
        return part

    def parts(self, k: int, u: int) -> tuple[Cube, Cube]:
        """Where u is held at stage k, and where it is not."""
        return Cube(self.bound, (*self.held, (k, u, True))), Cube(self.bound, (*self.held, (k, u, False)))


class Cubes:
    """All schedules, in cubes that workers take in turn."""

    def __init__(self, bound: int) -> None:
        self._open = [Cube(bound)]
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def one(self, known: int | None) -> Iterator[Cube | None]:
        """A cube for a worker: of the least bound, taken by nobody, perhaps with something better than is known.

        None: there is none at the moment.
        """
        with self._lock:
            free = (cube for cube in self._open if not cube.taken and (known is None or cube.bound < known))
            cube = min(free, key=lambda one: one.bound, default=None)
            if cube is not None:
                cube.taken = True
        try:
            yield cube
        finally:
            if cube is not None:
                cube.taken = False

    def improve(self, cube: Cube, bound: int) -> int | None:
        """Take notice of a cube's bound; that of all schedules. None: they are none of these cubes any more."""
        with self._lock:
            cube.bound = max(cube.bound, bound)
            return min(one.bound for one in self._open) if cube in self._open else None

    def replace(self, cube: Cube, parts: tuple[Cube, ...]) -> int | None:
        """Put the parts that may have schedules in its place; the bound of all. None: nothing is left."""
        with self._lock:
            if cube in self._open:
                self._open.remove(cube)
                self._open.extend(parts)
            return min((one.bound for one in self._open), default=None)
