"""Sets of integers as sorted, disjoint, closed ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LOWEST = -(2**63)
HIGHEST = 2**63 - 1
MOST_LISTED = 4_000_000
"""The largest set that may be iterated over, before memory runs out."""


@dataclass(frozen=True, slots=True)
class IntSet:
    """A set of integers; `ranges` are closed `(low, high)` pairs, ascending, disjoint and not adjacent.

    `LOWEST` and `HIGHEST` as ends mean unbounded.
    """

    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def of_range(low: int, high: int) -> IntSet:
        """The set `low..high`, empty if `low > high`."""
        return IntSet(((low, high),) if low <= high else ())

    @staticmethod
    def of_values(values: Iterable[int]) -> IntSet:
        """The set of the given values, in any order, repeated or not."""
        return IntSet.of_ranges((value, value) for value in values)

    @staticmethod
    def of_ranges(pairs: Iterable[tuple[int, int]]) -> IntSet:
        """The union of `low..high` for all pairs, in any order; those with `low > high` are empty."""
        ranges: list[tuple[int, int]] = []
        for low, high in sorted(pair for pair in pairs if pair[0] <= pair[1]):
            if ranges and low <= ranges[-1][1] + 1:
                ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
            else:
                ranges.append((low, high))
        return IntSet(tuple(ranges))

    def __contains__(self, value: int) -> bool:
        return any(low <= value <= high for low, high in self.ranges)

    def __iter__(self) -> Iterator[int]:
        if sum(high - low + 1 for low, high in self.ranges) > MOST_LISTED:
            raise ValueError(f"a set of more than {MOST_LISTED} values would have to be listed")
        for low, high in self.ranges:
            yield from range(low, high + 1)

    def __and__(self, other: IntSet) -> IntSet:
        pairs = (
            (max(low, other_low), min(high, other_high))
            for low, high in self.ranges
            for other_low, other_high in other.ranges
        )
        return IntSet(tuple(sorted(pair for pair in pairs if pair[0] <= pair[1])))

    def complement(self) -> IntSet:
        """All 64-bit integers outside the set."""
        result, low = [], LOWEST
        for first, last in self.ranges:
            if low < first:
                result.append((low, first - 1))
            low = last + 1
        if low <= HIGHEST:
            result.append((low, HIGHEST))
        return IntSet(tuple(result))

    def plus(self, amount: int) -> IntSet:
        """The set moved by an amount; where it is unbounded it stays so."""
        ends = [end if end in (LOWEST, HIGHEST) else end + amount for end in self.flat()]
        return IntSet(tuple(zip(ends[::2], ends[1::2], strict=True)))

    def flat(self) -> list[int]:
        """`[low, high, low, high, ...]`, the form of CP-SAT domains."""
        return [end for pair in self.ranges for end in pair]

    def __str__(self) -> str:
        if not self.ranges:
            return "1..0"
        if len(self.ranges) == 1:
            return f"{self.ranges[0][0]}..{self.ranges[0][1]}"
        return "{" + ",".join(map(str, self)) + "}"
