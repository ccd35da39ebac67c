"""Where a plan to be deployed comes from, with offsets: its file, or a schedule that was found."""

from __future__ import annotations

from os import PathLike

from moccasin_mzn.clock import Deadline
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import explained, located
from moccasin_mzn.extensions.addresses import ADDRESSES
from moccasin_mzn.extensions.addresses.search import search_arena
from moccasin_mzn.files import load_text, parse_json
from moccasin_mzn.graphs.adjacency import Blocks, blocks_of
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.problem.arena import Buffer
from moccasin_mzn.problem.files.plan_format import runtime_plan
from moccasin_mzn.problem.files.schedules import check_version, is_versioned
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort
from moccasin_mzn.search.result import Result

SEARCH_SECONDS = 10.0
"""Seconds of a search for offsets where no time limit is given."""


def plan_in(path: str | PathLike[str]) -> RuntimePlan | None:
    """The plan for runtimes in a file; None: the file has no such format, and may be a graph.

    Raises:
        InputError: the file cannot be read, or is such a plan, but broken; a plan of a PyTorch training step.
    """
    text = load_text(path)
    document = parse_json(text, path) if text.lstrip().startswith("{") else None
    with located(path), explained(Page.PLAN_FORMAT):
        check_version(document)
        return runtime_plan(document) if is_versioned(document) else None


def planned(result: Result) -> RuntimePlan:
    """The plan of a schedule with offsets."""
    arena, instance = result.arenas, result.instance
    where = instance.placed(arena, result.simulation)
    return RuntimePlan.of(
        instance.graph, plan_of_sequence(result.sequence), offsets=[one["offset"] for one in where],
        alignment=arena.alignment, workspaces=[one.get("workspace_offset") for one in where],
    )  # fmt: skip


def placed(plan: RuntimePlan, alignment: int | None, effort: Effort) -> RuntimePlan:
    """The plan with offsets that are multiples of `alignment`: its own, if they are; otherwise in small arenas."""
    step = plan.alignment if alignment is None else alignment
    if plan.placed and not any(
        place % step for of in plan.steps for place in (of.offset or 0, of.workspace_offset or 0)
    ):
        return plan.with_offsets([of.offset or 0 for of in plan.steps], step)
    ready(ADDRESSES)
    deadline, offsets = Deadline(effort.time_limit or SEARCH_SECONDS), [0] * len(plan.steps)
    workspaces: list[int | None] = [None] * len(plan.steps)
    blocks = blocks_of([step.size for step in plan.steps], (group for step in plan.steps for group in step.adjacent))
    for m in range(len(plan.memories)):
        there = [at for at, of in enumerate(plan.steps) if of.memory == m]
        working = [at for at in there if plan.steps[at].workspace]
        buffers = [_buffer(plan, at, blocks) for at in there]
        buffers += [Buffer(f"{at}, workspace", at, at + 1, plan.steps[at].workspace) for at in working]
        seconds = max(0.1, (deadline.remaining() or 0.0) / (len(plan.memories) - m))
        arena = search_arena(buffers, step, time_limit=seconds, seed=effort.seed or 0)
        for at, offset in zip(there, arena.offsets[: len(there)], strict=True):
            offsets[at] = offset
        for at, offset in zip(working, arena.offsets[len(there) :], strict=True):
            workspaces[at] = offset
    return plan.with_offsets(offsets, step, workspaces)


def _buffer(plan: RuntimePlan, at: int, blocks: Blocks) -> Buffer:
    step, place = plan.steps[at], blocks.place_of(at)
    begin = at if step.begin is None else step.begin
    if place is None:
        return Buffer(str(at), begin, step.end + 1, step.size)
    return Buffer(str(at), begin, step.end + 1, step.size, block=str(place[0]), place=place[1])


def with_all_outputs(plan: RuntimePlan, graph: ComputationGraph) -> RuntimePlan:
    """The plan in which all outputs of an operation have a place, retained or not; without offsets if some had none."""
    actions = plan.actions(graph)
    whole = graph.with_all_outputs([action.node for action in actions])
    if len(whole) == len(actions):
        return plan
    return RuntimePlan.of(graph, plan_of_sequence(whole), plan.memories)
