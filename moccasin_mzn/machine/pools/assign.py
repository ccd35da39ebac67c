"""Which memory each retention interval lies in, where the intervals are given: the most is saved in the fast ones.

::

    fast   |  [a=====]   [c====]          placed one after the other, by what a unit of memory and time saves there,
    slow   | [b====================]      each in the best memory that has room for it all the time

What has to be in one memory is one item: outputs of one computation, an output and the input that it overwrites, inputs
that are read as one. Then parts of it are taken out and placed again in other orders, as long as that costs no more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

NOWHERE = -1
"""The memory of an item that is not placed."""
FIRST_TRIES = 20
"""The number of orders in which everything is placed before there seems to be no room."""
MOST_TAKEN_OUT = 24
"""The most items that are taken out at once."""


@dataclass(frozen=True)
class Item:
    """What lies in one memory from `start` on: a copy with its workspace, or several that have to be in one memory."""

    start: int
    """The first position, from 0."""
    taken: np.ndarray = field(repr=False)
    """What is taken at `start` and at each position after it, to the last one."""
    costs: tuple[int, ...]
    """What all accesses to it take, by memory."""

    @property
    def end(self) -> int:
        """The last position."""
        return self.start + len(self.taken) - 1

    @staticmethod
    def of(pieces: Sequence[tuple[int, int, int]], costs: tuple[int, ...]) -> Item:
        """An item of pieces, each with its first and last position and its size."""
        start = min(first for first, _, _ in pieces)
        taken = np.zeros(max(last for _, last, _ in pieces) - start + 1, np.int64)
        for first, last, size in pieces:
            taken[first - start : last - start + 1] += size
        return Item(start, taken, costs)


class Assignment:
    """Items in memories; the best one found is `places`.

    Args:
        capacities: of the memories.
        horizon: the number of positions, from 0.
    """

    def __init__(self, items: Sequence[Item], capacities: Sequence[int], horizon: int, rng: random.Random) -> None:
        self.items, self.capacities, self.rng = items, list(capacities), rng
        self.places = [NOWHERE] * len(items)
        self._used = np.zeros((len(capacities), horizon), np.int64)
        self._liked = [sorted(range(len(capacities)), key=of.costs.__getitem__) for of in items]
        self._density = [(max(of.costs) - min(of.costs)) / max(1, int(of.taken.sum())) for of in items]
        self._largest = [int(of.taken.max()) for of in items]

    @property
    def cost(self) -> int:
        """What all accesses take."""
        return sum(of.costs[m] for of, m in zip(self.items, self.places, strict=True))

    def find(self, begin_with: Sequence[int] = ()) -> bool:
        """Place all items; False: no order tried has room for them.

        Args:
            begin_with: a memory for each, or `NOWHERE`: those are placed there first, where there is room.
        """
        for number in range(FIRST_TRIES):
            self._clear()
            for i, m in enumerate(begin_with if number == 0 else ()):
                if m != NOWHERE and self._has_room(i, m):
                    self._put(i, m)
            rest = [i for i, m in enumerate(self.places) if m == NOWHERE]
            if self._place(self._ordered(rest, number), mixed=number > FIRST_TRIES // 2):
                return True
        return False

    def improve(self, turns: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Take some out and place them again, so often; nothing that costs more is kept."""
        cost = self.cost
        least = sum(min(of.costs) for of in self.items)
        for _ in range(turns):
            if cost <= least or stop():
                return
            chosen = self._some()
            before = [self.places[i] for i in chosen]
            for i in chosen:
                self._take_out(i)
            if self._place(self._ordered(chosen, 1)):
                after = cost + sum(
                    self.items[i].costs[self.places[i]] - self.items[i].costs[m]
                    for i, m in zip(chosen, before, strict=True)
                )
                if after <= cost:
                    cost = after
                    continue
            for i, m in zip(chosen, before, strict=True):
                self._take_out(i)
                self._put(i, m)

    def _some(self) -> list[int]:
        """Items that are there at one time, which are in each other's way, or some of them."""
        of = self.items[self.rng.randrange(len(self.items))]
        at = self.rng.randint(of.start, of.end)
        alive = [i for i, other in enumerate(self.items) if other.start <= at <= other.end]
        return self.rng.sample(alive, min(len(alive), self.rng.randint(2, MOST_TAKEN_OUT)))

    def _ordered(self, chosen: list[int], number: int) -> list[int]:
        """What saves most first; `number` 1 and more: with noise, every third time by size."""
        if number == 0:
            return sorted(chosen, key=lambda i: -self._density[i])
        if number % 3 == 2:
            return sorted(chosen, key=lambda i: -self._largest[i] * self.rng.uniform(0.5, 1))
        return sorted(chosen, key=lambda i: -self._density[i] * self.rng.uniform(0.3, 1))

    def _place(self, order: Sequence[int], mixed: bool = False) -> bool:
        """Place these one after the other, each where it costs least, or where chance will have it; False: no room."""
        for i in order:
            liked = self.rng.sample(self._liked[i], len(self._liked[i])) if mixed else self._liked[i]
            m = next((m for m in liked if self._has_room(i, m)), None)
            if m is None:
                return False
            self._put(i, m)
        return True

    def _has_room(self, i: int, m: int) -> bool:
        of = self.items[i]
        used = self._used[m, of.start : of.start + len(of.taken)]
        return bool((used + of.taken).max() <= self.capacities[m])

    def _put(self, i: int, m: int) -> None:
        of = self.items[i]
        self._used[m, of.start : of.start + len(of.taken)] += of.taken
        self.places[i] = m

    def _take_out(self, i: int) -> None:
        of, m = self.items[i], self.places[i]
        if m != NOWHERE:
            self._used[m, of.start : of.start + len(of.taken)] -= of.taken
            self.places[i] = NOWHERE

    def _clear(self) -> None:
        self._used[:] = 0
        self.places = [NOWHERE] * len(self.items)
