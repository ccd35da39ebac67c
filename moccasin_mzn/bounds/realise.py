"""From a solution of the block relaxation to the schedule it suggests, and to where that schedule needs too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moccasin_mzn.bounds.relaxation import YES, Literal, Relaxation
from moccasin_mzn.problem.stages import sums_of_ranges


@dataclass(frozen=True)
class Computation:
    """One computation of the suggested sequence."""

    node: int
    stage: int
    """From 0; the computation is the first of its node if it is the stage's node."""
    memory: int
    """In use, in the unit of `Stages`."""


def realise(relaxation: Relaxation, solution: Sequence[bool]) -> list[Computation]:
    """Everything computed again as late in its block as its readers allow; within a stage in input order."""
    sequence: list[tuple[int, int]] = []  # (stage, node)
    for j in range(len(relaxation.chosen) + 1):
        stage = _places(relaxation, solution, j)
        sequence += sorted((k, v) for v, k in stage.items())
    sequence += [(k, k) for k in range(relaxation.stages.n)]
    sequence.sort()
    memory = _memory(relaxation, [v for _, v in sequence])
    return [Computation(v, k, used) for (k, v), used in zip(sequence, memory, strict=True)]


def _places(relaxation: Relaxation, solution: Sequence[bool], j: int) -> dict[int, int]:
    """The stage of each recomputation in block j that is of use."""
    s, last = relaxation.stages, relaxation.last(j)
    ends = relaxation.held[j] if j < len(relaxation.chosen) else {}

    def true(literal: Literal) -> bool:
        return literal == YES or (literal is not None and solution[literal])

    place: dict[int, int] = {}
    for u in sorted((u for u, again in relaxation.again[j].items() if true(again)), reverse=True):
        at_end = [last] if true(ends.get(u)) else []
        if true(relaxation.at_start(j, u)):
            reads = at_end  # earlier ones are served by the copy that is there
        else:
            firsts = [x for x in s.readers[u] if relaxation.before(j) < x <= last]
            reads = firsts + [place[x] for x in s.readers[u] if x in place] + at_end
        if reads:
            place[u] = min(reads)
    return place


def _memory(relaxation: Relaxation, sequence: Sequence[int]) -> list[int]:
    s = relaxation.stages
    latest: dict[int, int] = {}
    end = list(range(len(sequence)))
    for t, v in enumerate(sequence):
        for u in s.inputs[v]:
            end[latest[u]] = t
        latest[v] = t
    held = sums_of_ranges([s.size[v] for v in sequence], enumerate(end))
    return [memory + s.workspace[v] for memory, v in zip(held, sequence, strict=True)]
