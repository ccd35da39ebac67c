"""Where a plan to be deployed comes from, with offsets: its file, or a schedule that was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located
from moccasin_mzn.base.files import JsonObject, load_text, parse_json
from moccasin_mzn.graphs.adjacency import Blocks, blocks_of
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.machine.addresses import ADDRESSES
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.problem.arena import Arena, Buffer
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.files.plan_format import runtime_plan, versioned
from moccasin_mzn.problem.files.schedules import check_version, is_versioned
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.placing import placing_of
from moccasin_mzn.problem.problem import answer_document
from moccasin_mzn.problem.runtime_plan import RuntimePlan, Step, step_text
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
    arena, problem = result.arenas, result.problem
    where = problem.placed(arena, result.simulation)
    return RuntimePlan.of(
        problem.graph, problem.as_plan(result.answer or ()), [memory.name for memory in problem.platform.memories],
        [one["offset"] for one in where], arena.alignment, [one.get("workspace_offset") for one in where],
        problem.platform.devices,
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


def with_all_outputs(plan: RuntimePlan) -> RuntimePlan:
    """The plan in which each computation makes all outputs of its operation, retained or not; without offsets if it had
    no place for some.

    Those that are missing stand behind the first one, in its memory. Outputs are further ones of what they came with
    anywhere.

    Raises:
        InputError: one that is missing would take the place of a copy in another memory of the device.
    """
    further: dict[NodeId, dict[NodeId, Step]] = {}  # by first output, and by themselves
    listed: dict[int, set[NodeId]] = {}
    for step in plan.steps:
        if step.begin is not None:
            further.setdefault(plan.steps[step.begin].node, {}).setdefault(step.node, step)
            listed.setdefault(step.begin, set()).add(step.node)
    steps: list[Step] = []
    latest: dict[tuple[NodeId, int], Step] = {}  # by device: the copies that are there
    for at, step in enumerate(plan.steps):
        made, device = further.get(step.node, {}) if step.source is None else {}, plan.devices[step.memory]
        missing = made.keys() - listed.get(at, set())
        for node in missing:
            kept = latest.get((node, device), step)
            if kept.memory != step.memory and kept.end > at:
                again = f"{plan.memories[step.memory]}, where {node} is made again and has no place"
                hint = "solve with --addresses, which has one for each output"
                raise InputError(f"{step_text(at, step)} is computed in {again}: {hint}")
        latest[step.node, device] = step
        steps += [step, *(replace(like, memory=step.memory) for node, like in made.items() if node in missing)]
    return plan if len(steps) == len(plan.steps) else replace(plan, steps=_following(steps, plan))


def _following(steps: Sequence[Step], plan: RuntimePlan) -> tuple[Step, ...]:
    """The steps, one after the other, each of which reads the latest copies of what it read; without offsets.

    Args:
        plan: the numbers in the steps are of its steps.
    """
    latest: dict[tuple[NodeId, int], int] = {}  # by node and memory, or device
    found: list[Step] = []
    for at, step in enumerate(steps):
        source = step.memory if step.source is None else step.source

        def now(numbers: Sequence[int], read_in: int = plan.devices[source]) -> tuple[int, ...]:
            return tuple(latest[plan.steps[number].node, read_in] for number in numbers)

        reads, adjacent = now(step.reads), tuple(map(now, step.adjacent))
        begin = None if step.begin is None else now([step.begin])[0]
        for r in reads:
            found[r] = replace(found[r], end=at)
        found.append(
            replace(step, reads=reads, end=at, offset=None, begin=begin, workspace_offset=None, adjacent=adjacent)
        )
        latest[step.node, plan.devices[step.memory]] = at
    return tuple(found)


def schedule_document(graph: ComputationGraph, plan: RuntimePlan) -> JsonObject:
    """What a plan that is deployed is as a file, such as `solve --output` writes; its budget is its arena."""
    sequence = [action.node for action in plan.actions(graph)]
    simulation = simulate(graph, sequence)
    placing = placing_of(graph, simulation)
    offsets = [0] * len(placing.buffers)
    for step, copy, workspace in zip(plan.steps, placing.copies, placing.workspaces, strict=True):
        offsets[copy] = step.offset or 0
        if workspace is not None:
            offsets[workspace] = step.workspace_offset or 0
    arena = Arena(placing.buffers, tuple(offsets), plan.alignment)
    instance = Instance.build(graph, Budget(max(1, arena.size)), max_computations=max(Counter(sequence).values()))
    return versioned(graph, sequence, answer_document(instance, sequence, simulation, arena))
