"""The block relaxation: a staged schedule seen only at a few first computations and in the blocks between them.

::

    chosen stages            k_0           k_1           k_2
    blocks        |-- 0 ------|---- 1 ------|---- 2 ------|---- 3 ----|
    held[j][u]                u in memory while node k_j is computed for the first time
    again[j][u]        u, computed before block j for the first time, is computed in block j again, once or more

Every schedule gives values to these booleans that satisfy all constraints here, and costs no less than the durations
of what is computed again, each counted once per block: the least cost is a lower bound. More stages make it better.
But the linear relaxation is often better with fewer: a node computed again by halves in two blocks costs its inputs
only half, in one block all.

Moments add what is known about memory while something is computed again in a block.

`models/lib/blocks.mzn` states the same as a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from moccasin_mzn.bounds.program import YES, Capacity, Literal, Program
from moccasin_mzn.problem.stages import Stages


@dataclass
class Relaxation(Program):
    """A 0-1 program: least cost of the true columns subject to all constraints."""

    stages: Stages
    chosen: tuple[int, ...]
    """The stages k_j, ascending."""
    moments: tuple[int, ...] = ()
    """Stages that end the blocks with constraints on moments (n - 1 ends the last block)."""
    held: list[dict[int, Literal]] = field(default_factory=list)
    """By j and node; what is absent is known to be false."""
    again: list[dict[int, int]] = field(default_factory=list)
    """By block and node."""

    @classmethod
    def of(cls, stages: Stages, chosen: Iterable[int], moments: Iterable[int] = ()) -> Relaxation:
        """Columns and constraints for the chosen stages, and for moments."""
        relaxation = cls(stages, tuple(sorted(chosen)), tuple(sorted(moments)))
        blocks = range(len(relaxation.chosen) + 1)
        for j in blocks:
            relaxation._add_columns(j)
        for j in blocks:
            relaxation._add_reads(j)
            if j < len(relaxation.chosen):
                relaxation._add_memory(j)
        relaxation._add_counts()
        for j in blocks[1:]:
            if relaxation.last(j) in relaxation.moments:
                relaxation._add_moments(j)
        return relaxation

    def items(self) -> dict[str, set[int]]:
        """What `models/lib/blocks.mzn` takes beside an instance, to be the same relaxation."""
        return {"chosen": {k + 1 for k in self.chosen}, "moments": {k + 1 for k in self.moments}}

    # --- blocks ------------------------------------------------------------------------------------------

    def before(self, j: int) -> int:
        """The node whose first computation precedes block j; -1 if none does."""
        return self.chosen[j - 1] if j else -1

    def last(self, j: int) -> int:
        """The node whose first computation ends block j."""
        return self.chosen[j] if j < len(self.chosen) else self.stages.n - 1

    def at_start(self, j: int, u: int) -> Literal:
        """Is `u` in memory just before block j?"""
        return YES if u == self.before(j) else self.held[j - 1].get(u)

    # --- columns and constraints -------------------------------------------------------------------------

    def _add_columns(self, j: int) -> None:
        s, before, last = self.stages, self.before(j), self.last(j)
        useful = (s.most[u] > 1 and s.earliest[u] <= last and s.latest[u] > before for u in range(before + 1))
        self.again.append({u: self.column(s.duration[u]) for u, is_useful in enumerate(useful) if is_useful})
        if j < len(self.chosen):
            needed = set(s.inputs[last])
            self.held.append(
                {u: YES if u in needed else self.column() for u in range(last) if u in needed or s.latest[u] > last}
            )

    def _add_reads(self, j: int) -> None:
        """What is read in block j is there at its start or is computed in it again."""
        s, before = self.stages, self.before(j)
        first_reads = {u for x in range(before + 1, self.last(j) + 1) for u in s.inputs[x] if u <= before}
        for u in sorted(first_reads):
            self.clause((self.at_start(j, u), self.again[j].get(u)))
        for v, again in self.again[j].items():
            for u in s.inputs[v]:
                if u not in first_reads:
                    self.clause((self.at_start(j, u), self.again[j].get(u)), premise=again)

    def _add_memory(self, j: int) -> None:
        """What is held at k_j fits, and comes from somewhere."""
        s, before, k = self.stages, self.before(j), self.chosen[j]
        self.capacity(((held, s.size[u]) for u, held in self.held[j].items()), s.budget - s.size[k] - s.workspace[k])
        for u, held in self.held[j].items():
            if u <= before:
                self.clause((self.at_start(j, u), self.again[j].get(u)), premise=held)

    def _add_counts(self) -> None:
        for u in dict.fromkeys(u for block in self.again for u in block):
            self.capacity(((block[u], 1) for block in self.again if u in block), self.stages.most[u] - 1)

    # --- moments -----------------------------------------------------------------------------------------

    def _add_moments(self, j: int) -> None:
        """Memory while something is computed again in block j, in whatever order that is done.

        At any such moment all is in memory that is held through the block: held at both its ends and not computed
        again. At the last such moment all is in memory that was computed before the block for the first time and is
        held at its end.
        """
        self._add_through(j)
        if j < len(self.chosen) and self.again[j]:
            self._add_last(j)

    def _add_through(self, j: int) -> None:
        through: dict[int, Literal] = {}
        for u, end in self.held[j].items() if j < len(self.chosen) else ():
            start = self.at_start(j, u) if u <= self.before(j) else None
            again = self.again[j].get(u)
            if start is None:
                continue
            if start == end == YES and again is None:
                through[u] = YES
                continue
            through[u] = self.column()
            self._imply(through[u], start, end, again)
        for v, again in self.again[j].items():
            self._fits(v, through, again)

    def _imply(self, through: Literal, start: Literal, end: Literal, again: Literal) -> None:
        """through >= start + end - 1 - again."""
        weighted = [(start, 1), (end, 1), (through, -1), (again, -1)]
        ones = sum(weight for literal, weight in weighted if literal == YES)
        pairs = [(literal, weight) for literal, weight in weighted if literal is not None and literal != YES]
        columns, weights = zip(*pairs, strict=True)
        self.capacities.append(Capacity(columns, weights, 1 - ones))

    def _add_last(self, j: int) -> None:
        some, last = self.column(), {v: self.column() for v in self.again[j]}
        self.clause(last.values(), premise=some)
        self.capacity(((column, 1) for column in last.values()), 1)
        kept = {u: held for u, held in self.held[j].items() if u <= self.before(j)}
        for v, again in self.again[j].items():
            self.clause((some,), premise=again)
            self.clause((again,), premise=last[v])
            self._fits(v, kept, last[v])

    def _fits(self, v: int, others: dict[int, Literal], when: int) -> None:
        """`v`, its inputs, its workspace and the others fit together."""
        s, own = self.stages, (v, *self.stages.inputs[v])
        weighted = [(literal, s.size[u]) for u, literal in others.items() if u not in own]
        self.capacity(weighted, s.budget - s.workspace[v] - sum(s.size[u] for u in own), when)
