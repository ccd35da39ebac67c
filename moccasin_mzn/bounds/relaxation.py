"""The block relaxation: a staged schedule seen only at a few first computations and in the blocks between them.

::

    chosen stages            k_0           k_1           k_2
    blocks        |-- 0 ------|---- 1 ------|---- 2 ------|---- 3 ----|
    retained[j][u]     u in memory during the first computation of node k_j
    again[j][u]        u, computed before block j for the first time, is recomputed in block j, once or more

Every schedule gives values to these booleans that satisfy all constraints here, and costs no less than the durations
of what is recomputed, each counted once per block: the least cost is a lower bound. More stages make it better.

Moments add what is known about memory while something is recomputed in a block; watched recomputations, more
of it for one node, see `_Watch`.

`models/lib/blocks.mzn` states the same as a model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations, pairwise, permutations

from moccasin_mzn.problem.stages import Stages
from moccasin_mzn.solvers.program import YES, Capacity, Literal, Program


@dataclass
class Relaxation(Program):
    """A 0-1 program: least cost of the true columns subject to all constraints."""

    stages: Stages
    chosen: tuple[int, ...]
    """The stages k_j, ascending."""
    moments: tuple[int, ...] = ()
    """Stages that end the blocks with constraints on moments (n - 1 ends the last block)."""
    watched: tuple[tuple[int, int], ...] = ()
    """Nodes, each with a stage of the block in which its recomputation is looked at."""
    retained: list[dict[int, Literal]] = field(default_factory=list)
    """By j and node; what is absent is known to be false."""
    again: list[dict[int, int]] = field(default_factory=list)
    """By block and node."""
    budget_rows: dict[int, int] = field(default_factory=dict)
    """By j, which capacity makes sure that what is retained at k_j fits; none where all does."""

    @classmethod
    def of(
        cls, stages: Stages, chosen: Iterable[int], moments: Iterable[int] = (),
        watched: Iterable[tuple[int, int]] = (),
    ) -> Relaxation:  # fmt: skip
        """Columns and constraints for the chosen stages, for moments, and for watched recomputations."""
        relaxation = cls(stages, tuple(sorted(chosen)), tuple(sorted(moments)), tuple(sorted(watched)))
        blocks = range(len(relaxation.chosen) + 1)
        for j in blocks:
            relaxation._add_columns(j)
        for j in blocks:
            relaxation._add_reads(j)
            if j < len(relaxation.chosen):
                relaxation._add_memory(j)
        relaxation._add_counts()
        for j in blocks[:-2]:  # of the last block alone this is known
            relaxation._add_afterwards(j)
        for j in blocks[1:]:
            if relaxation.last(j) in relaxation.moments:
                relaxation._add_moments(j)
        relaxation._add_watched()
        return relaxation

    def items(self) -> dict[str, set[int] | list[int]]:
        """What `models/lib/blocks.mzn` takes besides an instance, to be the same relaxation."""
        return {
            "chosen": {k + 1 for k in self.chosen},
            "moments": {k + 1 for k in self.moments},
            "watched": [v + 1 for v, _ in self.watched],
            "watched_at": [k + 1 for _, k in self.watched],
        }

    # --- blocks ------------------------------------------------------------------------------------------

    def before(self, j: int) -> int:
        """The node whose first computation precedes block j; -1 if none does."""
        return self.chosen[j - 1] if j else -1

    def last(self, j: int) -> int:
        """The node whose first computation ends block j."""
        return self.chosen[j] if j < len(self.chosen) else self.stages.n - 1

    def block(self, k: int) -> int:
        """The block that stage k is in."""
        return bisect_left(self.chosen, k)

    def looks_inside(self, j: int) -> bool:
        """Does it look at memory while something is recomputed in the block?"""
        return self.last(j) in self.moments or any(self.block(k) == j for _, k in self.watched)

    def watches(self, v: int, k: int) -> bool:
        """Is a recomputation of `v` in the block of stage k watched?"""
        return any(u == v and self.block(at) == self.block(k) for u, at in self.watched)

    def at_start(self, j: int, u: int) -> Literal:
        """Is `u` in memory just before block j?"""
        return YES if u == self.before(j) else self.retained[j - 1].get(u)

    # --- columns and constraints -------------------------------------------------------------------------

    def _add_columns(self, j: int) -> None:
        s, before, last = self.stages, self.before(j), self.last(j)
        useful = (s.most[u] > 1 and s.earliest[u] <= last and s.latest[u] > before for u in range(before + 1))
        self.again.append({u: self.column(s.duration[u]) for u, is_useful in enumerate(useful) if is_useful})
        if j < len(self.chosen):
            needed = set(s.inputs[last])
            self.retained.append(
                {u: YES if u in needed else self.column() for u in range(last) if u in needed or s.latest[u] > last}
            )

    def _add_reads(self, j: int) -> None:
        """What is read in block j is there at its start or is recomputed in it."""
        s, before = self.stages, self.before(j)
        first_reads = {u for x in range(before + 1, self.last(j) + 1) for u in s.inputs[x] if u <= before}
        for u in sorted(first_reads):
            self.clause((self.at_start(j, u), self.again[j].get(u)))
        for v, again in self.again[j].items():
            for u in s.inputs[v]:
                if u not in first_reads:
                    self.clause((self.at_start(j, u), self.again[j].get(u)), premise=again)

    def _add_memory(self, j: int) -> None:
        """What is retained at k_j fits, and comes from somewhere."""
        s, before, k = self.stages, self.before(j), self.chosen[j]
        already = len(self.capacities)
        room = s.budget - s.size[k] - s.workspace[k]
        self.capacity(((retained, s.size[u]) for u, retained in self.retained[j].items()), room)
        if len(self.capacities) > already:
            self.budget_rows[j] = already
        for u, retained in self.retained[j].items():
            if u <= before:
                self.clause((self.at_start(j, u), self.again[j].get(u)), premise=retained)

    def _add_counts(self) -> None:
        for u in dict.fromkeys(u for block in self.again for u in block):
            self.capacity(((block[u], 1) for block in self.again if u in block), self.stages.most[u] - 1)

    def _add_afterwards(self, j: int) -> None:
        """What is recomputed after k_j has its inputs: each is retained at k_j, or is recomputed after it too.

        Whatever is true or false satisfies this already; but halves do not: they could recompute a little in each
        of many blocks, with as little of the inputs.
        """
        s, k = self.stages, self.chosen[j]
        after = {v: terms for v in range(k) if (terms := self._afterwards(j, v))}
        for v, terms in after.items():
            for u in s.inputs[v]:
                self.row([*terms, (self.retained[j].get(u), -1), *((one, -1) for one, _ in after.get(u, ()))], 0)

    def _afterwards(self, j: int, u: int) -> list[tuple[Literal, int]]:
        """Is `u`, computed before k_j, recomputed after it? As terms that sum to 1 or 0."""
        blocks: list[tuple[Literal, int]] = [(again[u], 1) for again in self.again[j + 1 :] if u in again]
        if self.stages.most[u] <= 2 or len(blocks) < 2:
            return blocks
        once = self.column()
        self.row([(once, 1), *((again, -1) for again, _ in blocks)], 0)
        if self.stages.readers[u][-1] > self.chosen[j]:
            self.clause((self.retained[j].get(u), once))
        return [(once, 1)]

    # --- moments -----------------------------------------------------------------------------------------

    def _add_moments(self, j: int) -> None:
        """Memory while something is recomputed in block j, in whatever order that is done.

        At any such moment all is in memory that is retained through the block: retained at both its ends and not
        recomputed. At the last such moment all is in memory that was computed before the block for the first time
        and is retained at its end.
        """
        self._add_through(j)
        if j < len(self.chosen) and self.again[j]:
            self._add_last(j)

    def _add_through(self, j: int) -> None:
        through: dict[int, Literal] = {}
        for u, end in self.retained[j].items() if j < len(self.chosen) else ():
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
        kept = {u: retained for u, retained in self.retained[j].items() if u <= self.before(j)}
        for v, again in self.again[j].items():
            self.clause((some,), premise=again)
            self.clause((again,), premise=last[v])
            self._fits(v, kept, last[v])

    def _fits(self, v: int, others: dict[int, Literal], when: int) -> None:
        """`v`, its inputs, its workspace and the others fit together."""
        s, own = self.stages, (v, *self.stages.inputs[v])
        weighted = [(literal, s.size[u]) for u, literal in others.items() if u not in own]
        self.capacity(weighted, s.budget - s.workspace[v] - sum(s.size[u] for u in own), when)

    # --- watched recomputations --------------------------------------------------------------------------

    def _add_watched(self) -> None:
        by_block: dict[int, dict[int, _Watch]] = {}
        for v, k in self.watched:
            j = self.block(k)
            if v in self.again[j] and v not in by_block.setdefault(j, {}):
                by_block[j][v] = _Watch.of(self, v, j)
        for watches in by_block.values():
            for one, other in combinations(watches.values(), 2):
                self.row([(one.later.get(other.node), 1), (other.later.get(one.node), 1)], 1)
                either = [(one.later.get(other.node), -1), (other.later.get(one.node), -1)]
                self.row([(one.again, 1), (other.again, 1), *either], 1)
            for first, second in permutations(watches.values(), 2):
                self._follows(first, second)

    def _follows(self, first: _Watch, second: _Watch) -> None:
        """If the second comes later, so does what comes later than that."""
        follows = first.later.get(second.node)
        for u, later in second.later.items():
            if u != first.node:
                self.row([(later, 1), (follows, 1), (first.later.get(u), -1)], 1)
        for k, passed in first.passed.items():
            self.row([(passed, 1), (follows, 1), (second.passed[k], -1)], 1)


@dataclass
class _Watch:
    """The moment of the only or last recomputation of a node v in a block: what is in memory then.

    ::

        before the block        the block
        --------------- k_j-1 | ... k ... v ... k ... k_j
        there[u]        is u in memory while v is recomputed?
        later[u]        is u recomputed in the block after that?
        passed[k]       is k, of the block, computed for the first time before that?

    for nodes u before the block, all false if v is not recomputed in it. What is retained at the end of the block, what
    a first computation of the block that is still to come reads, and what is read by what is recomputed later, is
    there or is itself recomputed later.
    """

    node: int
    again: int
    there: dict[int, Literal] = field(default_factory=dict)
    later: dict[int, Literal] = field(default_factory=dict)
    passed: dict[int, Literal] = field(default_factory=dict)

    @classmethod
    def of(cls, relaxation: Relaxation, v: int, j: int) -> _Watch:
        """The moment's columns and constraints in the relaxation."""
        s, before, again = relaxation.stages, relaxation.before(j), relaxation.again[j]
        watch, own = cls(v, again[v]), {v, *s.inputs[v]}
        for k in range(before + 1, relaxation.last(j) + (j == len(relaxation.chosen))):
            watch.passed[k] = watch._column(relaxation)
        for k, following in pairwise(watch.passed):
            relaxation.row([(watch.passed[following], 1), (watch.passed[k], -1)], 0)
        for u in range(before + 1):
            if s.size[u] and (u in own or s.latest[u] > before):
                watch.there[u] = again[v] if u in own else watch._column(relaxation)
            if u in again and u != v:
                watch.later[u] = watch._column(relaxation)
                relaxation.row([(watch.later[u], 1), (again[u], -1)], 0)
        for u in watch.there:
            if u != v:
                watch._add_origin(relaxation, j, u)
                watch._add_uses(relaxation, j, u)
        used = [(there, s.size[u]) for u, there in watch.there.items()]
        relaxation.row([*used, (again[v], s.workspace[v] - s.budget)], 0)
        return watch

    def _column(self, relaxation: Relaxation) -> int:
        column = relaxation.column()
        relaxation.row([(column, 1), (self.again, -1)], 0)
        return column

    def _add_origin(self, relaxation: Relaxation, j: int, u: int) -> None:
        """What is there was so at the start, or is recomputed in the block, once: not later."""
        start = relaxation.at_start(j, u)
        if start != YES:
            late = self.later.get(u) if relaxation.stages.most[u] <= 2 else None
            made = relaxation.again[j].get(u)
            relaxation.row([(self.there[u], 1), (start, -1), (made, -1), (late, 1)], 0)

    def _add_uses(self, relaxation: Relaxation, j: int, u: int) -> None:
        served = [(self.there[u], -1), (self.later.get(u), -1)]
        for k in relaxation.stages.readers[u]:
            if k in self.passed:
                relaxation.row([(self.again, 1), (self.passed[k], -1), *served], 0)
            elif k in self.later:
                relaxation.row([(self.later[k], 1), *served], 0)
        end = relaxation.retained[j].get(u) if j < len(relaxation.chosen) else None
        relaxation.row([(self.again, 1), (end, 1), *served], 1)
