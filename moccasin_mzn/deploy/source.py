"""Where a plan to be deployed comes from, with offsets: its file, or a graph that is planned for within a budget."""

from __future__ import annotations

from os import PathLike

from moccasin_mzn.clock import Deadline
from moccasin_mzn.errors import InputError, located
from moccasin_mzn.extensions.addresses import ADDRESSES
from moccasin_mzn.extensions.addresses.search import search_arena
from moccasin_mzn.extensions.asking import prepared
from moccasin_mzn.files import load_text, parse_json
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.problem.arena import Buffer
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.files.plan_format import runtime_plan
from moccasin_mzn.problem.files.version import is_versioned
from moccasin_mzn.problem.plan import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort

SEARCH_SECONDS = 10.0
"""Of a search for offsets, without a time limit."""


def plan_to_deploy(
    path: str | PathLike[str], budget: str | None, alignment: int | None, effort: Effort,
    graph: ComputationGraph | None = None,
) -> RuntimePlan:  # fmt: skip
    """The plan of a file, or one that is found for the graph in it; with offsets that are multiples of `alignment`.

    Args:
        budget: most memory for the arena, for a graph; None: the file is a plan.
        alignment: None: that of the plan; 1 for a graph, and for a plan without offsets.
        graph: what a plan must be a plan of; None: whatever graph.

    Raises:
        InputError: the file cannot be read, or is neither; a plan with a budget, a graph without; no schedule is found
            whose arena is within the budget.
    """
    text = load_text(path)
    document = parse_json(text, path) if text.lstrip().startswith("{") else None
    if is_versioned(document):
        if budget is not None:
            raise InputError("--budget is for a graph: a plan has a budget of its own")
        with located(path):
            return placed(runtime_plan(document, graph), alignment, effort)
    if budget is None:
        raise InputError(f"{path}: no plan for runtimes; of a graph one is made within --budget")
    return planned(read_graph(path), budget, alignment or 1, effort)


def planned(graph: ComputationGraph, budget: str, alignment: int, effort: Effort) -> RuntimePlan:
    """A short schedule whose arena is within the budget.

    Raises:
        InputError: see `plan_to_deploy`.
    """
    given = {name: value for name, value in vars(effort).items() if value is not None}
    ask = prepared({"search": "only", "time_limit": SEARCH_SECONDS, **given}, alignment=alignment)
    result = ask(graph, budget=Budget.parse(budget), order="input", count_fixed=False).answer()
    if not result.valid:
        raise InputError(f"no schedule: {result.reason}")
    actions = plan_of_sequence(result.sequence)
    return RuntimePlan.of(graph, actions, offsets=result.arenas.offsets, alignment=alignment)


def placed(plan: RuntimePlan, alignment: int | None, effort: Effort) -> RuntimePlan:
    """The plan with offsets that are multiples of `alignment`: its own, if they are; otherwise in small arenas."""
    step = plan.alignment if alignment is None else alignment
    if plan.placed and not any((of.offset or 0) % step for of in plan.steps):
        return plan.with_offsets([of.offset or 0 for of in plan.steps], step)
    ready(ADDRESSES)
    deadline, offsets = Deadline(effort.time_limit or SEARCH_SECONDS), [0] * len(plan.steps)
    for m in range(len(plan.memories)):
        there = [at for at, of in enumerate(plan.steps) if of.memory == m]
        buffers = [Buffer(str(at), at, plan.steps[at].end + 1, plan.steps[at].size) for at in there]
        seconds = max(0.1, (deadline.remaining() or 0.0) / (len(plan.memories) - m))
        arena = search_arena(buffers, step, time_limit=seconds, seed=effort.seed or 0)
        for at, offset in zip(there, arena.offsets, strict=True):
            offsets[at] = offset
    return plan.with_offsets(offsets, step)
