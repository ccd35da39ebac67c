"""The best of all subsets of some recomputations, as a 0-1 program: staged schedules that recompute nothing else.

::

    node u      computed      read    maybe again: c    read    read, if x is computed again
    event           |----------|------------|------------|-----------|
    in memory?           yes      a column        yes       a column

Events are those of `state`: computing v in stage k is event k n + v. A stretch between two events that compute or read
u has a column that says whether u is in memory throughout, unless it must be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moccasin_mzn.heuristics.slots import Problem
from moccasin_mzn.solvers.program import YES, Literal, Program

Recomputation = tuple[int, int]
"""A node, and the stage in which it is computed again."""


def program_of(problem: Problem, choices: Sequence[Recomputation]) -> Program:
    """Solutions are the subsets within the budget and C_v.

    The first columns are the choices, in their order, which is ascending.
    """
    program = Program()
    column = {(v, k): program.column(int(problem.duration[v])) for v, k in choices}
    again: dict[int, list[int]] = {}
    for v, k in choices:
        again.setdefault(v, []).append(k)
    for v, stages in again.items():
        slots = int(problem.slot_ptr[v + 1] - problem.slot_ptr[v])
        program.capacity(((column[v, k], 1) for k in stages), slots)
    _add_memory(problem, program, column, again)
    return program


def _add_memory(
    problem: Problem, program: Program, column: dict[Recomputation, int], again: dict[int, list[int]]
) -> None:
    """What is in memory at each computation that is made fits."""
    n, size = len(problem.duration), problem.size.tolist()
    events = sorted([*(k * n + k for k in range(n)), *(k * n + v for v, k in column)])
    index = {event: i for i, event in enumerate(events)}
    change = [0] * (len(events) + 1)
    beginning: list[list[tuple[int, int, Literal]]] = [[] for _ in events]
    for u in range(n):
        for begin, end, kept in _stretches(problem, program, column, again, u) if size[u] else ():
            if kept == YES:
                change[index[begin] + 1] += size[u]
                change[index[end] + 1] -= size[u]
            else:
                beginning[index[begin]].append((index[end], u, kept))
    lasting, sure = list[tuple[int, int, Literal]](), 0
    for i, event in enumerate(events):
        k, v = divmod(event, n)
        sure += change[i]
        lasting = [stretch for stretch in lasting if stretch[0] >= i]
        left = int(problem.budget) - sure - size[v] - int(problem.workspace[v])
        others = ((kept, size[u]) for _, u, kept in lasting if u != v)
        program.capacity(others, left, YES if v == k else column[v, k])
        lasting += beginning[i]


def _stretches(
    problem: Problem, program: Program, column: dict[Recomputation, int], again: dict[int, list[int]], u: int
) -> Iterator[tuple[int, int, Literal]]:
    """From when to when, both events, u may be in memory, with a literal that says whether it is; in order.

    At the first of the two events it is not counted, at the second it is.
    """
    n = len(problem.duration)

    def computations(x: int) -> dict[int, Literal]:
        return {x * n + x: YES, **{k * n + x: column[x, k] for k in again.get(x, ())}}

    computed, read = computations(u), dict[int, Literal]()
    for x in problem.succ[problem.succ_ptr[u] : problem.succ_ptr[u + 1]].tolist():
        read |= computations(x)
    events = sorted(event for event in computed | read if event <= max(read, default=-1))
    kept, must = [0] * len(events), False  # by the event that ends the stretch; the first one ends none
    for i in range(len(events) - 1, 0, -1):
        event = events[i]
        must = read.get(event) == YES or (must and event not in computed)
        kept[i] = YES if must else program.column()
    for i, event in enumerate(events):
        before, after = (kept[i] if i else None), (kept[i + 1] if i + 1 < len(events) else None)
        if event in read:
            program.clause((before,), premise=read[event])
            program.clause((before,), premise=after)
        else:
            program.clause((before, computed[event]), premise=after)
        if i:
            yield events[i - 1], event, kept[i]
