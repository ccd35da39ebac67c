"""Offsets that a file claims, in one memory: do its intervals share memory, and is the arena within the budget?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.files.plans import ClaimedPlan
from moccasin_mzn.problem.files.schedules import ClaimedSchedule
from moccasin_mzn.problem.judges.arenas import flaws
from moccasin_mzn.problem.judges.schedules import Violation
from moccasin_mzn.words import count_text, exact_memory_text, memory_text, over_text


@dataclass(frozen=True)
class ClaimedArena:
    """The intervals of one memory, and where they claim to lie."""

    graph: ComputationGraph
    placed: tuple[tuple[int, int, int, int], ...]
    """Node, start and end, closed, and offset of each."""
    alignment: int
    """What all offsets claim to be multiples of."""
    size: int | None
    """What the arena claims to be; None: nothing."""
    budget: int | None
    place: str = ""
    """Whose memory it is, to be read behind a noun: " in local"; empty where there is one only."""

    @property
    def top(self) -> int:
        """Where the topmost interval ends."""
        sizes = self.graph.sizes
        return max((offset + sizes[v] for v, *_, offset in self.placed if sizes[v]), default=0)

    def violations(self) -> Iterator[Violation]:
        """All that is wrong, in the order found.

        The kinds are "negative-offset", "misaligned-offset", "overlap", "wrong-arena" for an arena that is not as large
        as claimed, and "arena-over-budget".
        """
        graph, step, unit = self.graph, max(1, self.alignment), self.graph.size_unit
        boxes = [
            (start, end + 1, graph.sizes[v], step) if start <= end else (0, 1, 0, step)
            for v, start, end, _ in self.placed
        ]
        for flaw in flaws(boxes, [offset for *_, offset in self.placed]):
            v, start, *_ = self.placed[flaw.buffer]
            at, node = flaw.time or start, node_text(graph, v)
            if flaw.other is not None:
                other = node_text(graph, self.placed[flaw.other][0])
                text = f"the outputs of nodes {other} and {node} overlap{self.place} at addresses {flaw.detail}"
                yield Violation("overlap", at, v, f"position {at}: {text}")
            else:
                message = f"position {at}: the interval of node {node}{self.place}: {flaw.detail}"
                yield Violation(f"{flaw.kind}-offset", at, v, message)
        if self.size is not None and self.size != self.top:
            claimed, found = (exact_memory_text(amount, unit) for amount in (self.size, self.top))
            message = f"arena{self.place} claimed is {claimed}, but the intervals end at {found}"
            yield Violation("wrong-arena", None, None, message)
        if self.budget is not None and self.top > self.budget:
            message = f"arena {memory_text(self.top, unit)}{self.place} is {over_text(self.top, self.budget, unit)}"
            yield Violation("arena-over-budget", None, None, message)

    def verdict(self) -> str:
        """What was judged, and how, in one line: size, overlaps, alignment, and the size against the budget."""
        kinds, unit = Counter(violation.kind for violation in self.violations()), self.graph.size_unit
        odd, step = kinds["misaligned-offset"] + kinds["negative-offset"], memory_text(max(1, self.alignment), "unit")
        verdicts = [
            f"arena{self.place} {memory_text(self.top, unit)} for {count_text(len(self.placed), 'interval')}",
            f"{count_text(kinds['overlap'], 'overlap')} found" if kinds["overlap"] else "no overlap",
            f"{count_text(odd, 'offset')} not a multiple of {step}" if odd else f"offsets are multiples of {step}",
        ]
        if self.budget is None:
            return ", ".join([*verdicts, "no budget"])
        side = "over" if kinds["arena-over-budget"] else "within"
        return ", ".join([*verdicts, f"{side} the budget {memory_text(self.budget, unit)}"])


def arena_of_schedule(
    graph: ComputationGraph, schedule: ClaimedSchedule, budget: int | None
) -> tuple[ClaimedArena, ...]:
    """What a schedule claims of its arena; nothing if it has no offsets."""
    if schedule.offsets is None or schedule.intervals is None:
        return ()
    pairs = zip(schedule.intervals, schedule.offsets, strict=True)
    placed = tuple((of.node, of.start, of.end, offset) for of, offset in pairs)
    return (ClaimedArena(graph, placed, schedule.alignment or 1, schedule.arena, budget),)


def arenas_of_plan(claimed: ClaimedPlan) -> tuple[ClaimedArena, ...]:
    """What a plan claims of its arenas, one for each memory; nothing if it has no offsets."""
    if claimed.placed is None:
        return ()
    graph, sizes = claimed.platform.graph, dict(claimed.arenas)
    return tuple(
        ClaimedArena(
            graph, tuple((of.node, of.start, of.end, of.offset) for of in claimed.placed if of.memory == m),
            claimed.alignment, sizes.get(m), place.budget, f" in {place.name}",
        )
        for m, place in enumerate(claimed.platform.memories)
    )  # fmt: skip


def judged_arenas(noun: str, arenas: tuple[ClaimedArena, ...]) -> list[str]:
    """What was judged of each arena of a schedule or a plan, in one line each."""
    return [arena.verdict() for arena in arenas] or [f"no arena to judge: the {noun} has no offsets"]
