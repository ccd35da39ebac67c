"""Schedule and offsets in one model: the budget is the size of an arena, and what is proven is proven for that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import Formulation, find_formulation
from moccasin_mzn.formulations.presolve import ModelData, presolve, reduced, stage_data
from moccasin_mzn.formulations.solution_checkers import check_schedule, computed_data
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.addresses.allocate import scale_of
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.features import OF_ONE_MEMORY, Ability, Feature, Features, graph_features
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation, simulate
from moccasin_mzn.problem.placing import places_in, placing_of
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.solvers.minizinc.run import Limits, Outcome, OutputListener, Solution, Value, dzn_text, run_model
from moccasin_mzn.solvers.minizinc.solvers import find_backend

MOST_COMPUTATIONS = 80
"""With more, the model, quadratic in computations, is too large to prove anything."""
_CROWDED = -1
"""A budget that every stage exceeds: presolve then keeps recomputations that relieve no memory. With addresses they may
pay, since a copy that is recomputed may lie elsewhere."""


@dataclass(frozen=True)
class JointAnswer:
    status: str
    """"optimal", "feasible", "infeasible" or "unknown", of the least duration within an arena of the budget's size."""
    sequence: tuple[int, ...] | None
    arena: Arena | None
    """The arena of the retention intervals of `sequence`."""
    bound: int
    """No schedule whose arena is within the budget is shorter, in the graph's duration unit; 0: nothing is known."""
    interrupted: bool


def solve_jointly(
    instance: Instance, alignment: int = 1, *, staged: bool = True,
    incumbent: tuple[Sequence[int], Arena] | None = None, solver: str = "cp-sat", limits: Limits | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> JointAnswer:  # fmt: skip
    """The shortest schedule that has an arena within the budget, for small instances.

    Args:
        staged: only schedules in stages of the input order; else any order.
        incumbent: a schedule, with an arena within the budget, that the formulation has as a solution.
        stop: ends the run by returning true.

    Raises:
        SolverError: MiniZinc or the solver failed.
        InputError: the solver returned what is no schedule, or what has no such arena; an unknown solver.
    """
    form, search = find_formulation("staged" if staged else "general"), _Joint(instance, alignment, staged)
    sequence, arena = incumbent or (None, None)
    items = search.items(form, sequence, arena)
    listener = OutputListener(search.solution, search.bounded)
    outcome = run_model(
        find_backend(solver),
        form.program,
        dzn_text(items),
        limits or Limits(),
        listener,
        stop,
        sequence is not None,
    )
    return search.answer(outcome)


JOINT = Ability("joint models", OF_ONE_MEMORY)
WITH_PLACES = Features({Feature.WORKSPACES, Feature.OUTPUTS, Feature.IN_PLACE, Feature.SIDE_BY_SIDE})
"""Features of graphs whose buffers are not just retention intervals, each with an offset of its own."""
MOST_CHECKED = 1000
"""Computations of the longest schedule whose offsets the checker of schedules judges, all pairs of them."""


def is_modelled(graph: ComputationGraph) -> bool:
    """True if the joint models have all that an arena of the graph has.

    The models list all outputs of an operation, one after the other, so that it overwrites no input: they do not have
    the schedules in which it does, while further outputs are dropped.
    """
    overwriting = (v for v, inputs in enumerate(graph.overwritable or ()) if inputs)
    return graph_features(graph) <= JOINT.handles and not any(graph.outputs_of[v] for v in overwriting)


def is_checked(graph: ComputationGraph, sequence: Sequence[int]) -> bool:
    """True if offsets of the schedule are for `check_placed`: there is more to them than that buffers are apart."""
    return bool(graph_features(graph) & WITH_PLACES) and is_modelled(graph) and len(sequence) <= MOST_CHECKED


def check_placed(instance: Instance, sequence: Sequence[int], simulation: Simulation, arena: Arena) -> str:
    """The verdict of `check_schedule` on a schedule and its offsets: what is read as one lies side by side, what is
    written over an input lies there, and further outputs and workspaces have places.

    Args:
        instance: of a graph as `is_modelled` wants it.
        sequence: with all outputs of each operation.

    Raises:
        CheckError, InputError: see `check_schedule`.
    """
    joint = _Joint(instance, arena.alignment, staged=False, offsets=arena.offsets)
    joint.data = computed_data(joint.data, sequence)
    offset, workspace_offset = joint.slots(sequence, arena)
    more: dict[str, Value] = {"offset": offset, "workspace_offset": workspace_offset, "behind": joint.behind()}
    return check_schedule(instance, sequence, simulation, joint.data, more)


def joint_data(
    instance: Instance, alignment: int, staged: bool, offsets: Sequence[int] = ()
) -> tuple[ModelData, int]:  # fmt: skip
    """The data of the joint models, and the alignment in their size unit; nothing is presolved away for lack of use.

    Args:
        offsets: offsets that are to be multiples of the size unit as well.
    """
    graph = instance.graph
    data, tight = reduced(replace(stage_data(instance), budget=_CROWDED), staged), presolve(instance, staged)
    scale = math.gcd(scale_of([*graph.sizes, *(graph.workspaces or ())], [alignment]), *offsets)
    units = data.size_scale // scale
    data = replace(
        data,
        size_scale=scale,
        size=tuple(size * units for size in data.size),
        workspace=tuple(amount * units for amount in data.workspace),
        budget=instance.budget // scale,
        input_order_memory=tuple(amount * units for amount in data.input_order_memory),
        critical_stage=tight.critical_stage,
    )
    return _with_all_outputs(data, staged), max(1, alignment // scale)


def _with_all_outputs(data: ModelData, staged: bool) -> ModelData:
    """The same where all outputs of an operation are computed each time, one after the other, if only to be dropped.

    Whatever recomputes a further output reads the first one, so that this is of use as long as any of them is. In
    stages that end with further outputs nothing is recomputed.
    """
    most, earliest, latest = list(data.max_computations), list(data.earliest_stage), list(data.latest_stage)
    for v, first in enumerate(data.output_of, 1):
        if first and staged and v >= latest[first - 1]:
            most[first - 1] = 1
    for v, first in enumerate(data.output_of, 1):
        if first:
            most[v - 1] = most[first - 1]
        if first and staged:
            latest[v - 1] = max(latest[v - 1], latest[first - 1])
            earliest[v - 1] = latest[v - 1] if most[v - 1] == 1 else max(earliest[first - 1], v + 1)
    return replace(data, max_computations=tuple(most), earliest_stage=tuple(earliest), latest_stage=tuple(latest))


class _Joint:
    """One run: translates solutions, and has each of them judged."""

    def __init__(self, instance: Instance, alignment: int, staged: bool, offsets: Sequence[int] = ()) -> None:
        self.instance, self.alignment, self.staged = instance, alignment, staged
        self.data, self.step = joint_data(instance, alignment, staged, offsets)
        self.sequence: tuple[int, ...] | None = None
        self.arena: Arena | None = None
        self.duration: int | None = None
        """The duration of the latest solution, in the graph's duration unit."""
        self.bound = 0

    def items(self, form: Formulation, sequence: Sequence[int] | None, arena: Arena | None) -> dict[str, Value]:
        """The `.dzn` items, with a warm start if it is a solution of the model."""
        items = form.data_items(self.instance.graph, self.data)
        if sequence is not None and arena is not None and self._has(sequence, arena):
            offset, workspace_offset = self.slots(sequence, arena)
            items = form.data_items(self.instance.graph, self.data, sequence)
            items |= {"incumbent_offset": offset, "incumbent_workspace_offset": workspace_offset}
        behind = self.behind()
        return {**items, **({"behind": behind} if any(behind) else {}), "alignment": self.step}

    def behind(self) -> list[int]:
        """For each edge of the data the node directly behind whose output its head reads that of its tail; 0: none."""
        graph, order = self.instance.graph, self.data.order
        number, found = {v: k for k, v in enumerate(order, 1)}, dict[tuple[int, int], int]()
        for x, groups in enumerate(graph.adjacent or ()):
            found |= {(number[v], number[x]): number[u] for group in groups for u, v in pairwise(group)}
        return [found.get(edge, 0) for edge in self.data.edges]

    def _has(self, sequence: Sequence[int], arena: Arena) -> bool:
        """True if it is in stages, with all outputs, with no more computations than allowed and with offsets in the
        unit of the model."""
        counts = dict(zip(self.data.order, self.data.max_computations, strict=True))
        return (
            all(sequence.count(v) <= most for v, most in counts.items())
            and tuple(sequence) == self.instance.graph.with_all_outputs(sequence)
            and not any(offset % self.data.size_scale for offset in arena.offsets)
            and not (self.staged and first_out_of_stage(self.instance.order, sequence))
        )

    def slots(self, sequence: Sequence[int], arena: Arena) -> tuple[list[int], list[int]]:
        """The offset of each computation, node by node, in the unit of the model, and that of its workspace; 0 where it
        does not take place, or takes no memory."""
        graph, copies = self.instance.graph, dict[int, list[tuple[int, int]]]()
        simulation = simulate(graph, sequence)
        places = places_in([placing_of(graph, simulation)], [arena.offsets], simulation.intervals)
        for interval, place in zip(simulation.intervals, places, strict=True):
            offset = place["offset"] if graph.sizes[interval.node] else 0
            row = offset // self.data.size_scale, place.get("workspace_offset", 0) // self.data.size_scale
            copies.setdefault(interval.node, []).append(row)
        rows = zip(self.data.order, self.data.max_computations, strict=True)
        slots = [slot for v, most in rows for slot in (copies[v] + [(0, 0)] * most)[:most]]
        return [offset for offset, _ in slots], [workspace for _, workspace in slots]

    def solution(self, values: Solution) -> None:
        """Take an improving solution: the arena is judged at birth, the sequence by the simulator."""
        data = self.data
        columns = values.active, values.start, data.computation_nodes, values.offset, values.workspace_offset
        performed = sorted(row[1:] for row in zip(*columns, strict=True) if row[0])
        sequence = tuple(data.order[node - 1] for _, node, *_ in performed)
        simulation = simulate(self.instance.graph, sequence)
        claimed = values.objective * data.duration_scale
        if simulation.violations or simulation.duration != claimed:
            flaw = simulation.violations[0].message if simulation.violations else f"it takes {simulation.duration}"
            raise InputError(f"the joint model returned a schedule of duration {claimed} that is refused: {flaw}")
        arena = self._arena(simulation, [row[2:] for row in performed])
        self.duration = simulation.duration
        if arena.size <= self.instance.budget:
            self.sequence, self.arena = sequence, arena
        elif not simulation.overwrites:
            raise InputError(f"the joint model returned an arena of {arena.size}, over {self.instance.budget}")

    def _arena(self, simulation: Simulation, places: Sequence[Sequence[int]]) -> Arena:
        """The arena of a solution, with the places of each computation: its output's and its workspace's.

        In the model an output may overwrite any input that dies, or none. In an arena it lies where the largest one
        lay; where that is not so, offsets are searched for, and may be over the budget.
        """
        graph, scale = self.instance.graph, self.data.size_scale
        placing = placing_of(graph, simulation)
        offsets, moved = [0] * len(placing.buffers), False
        placed = set[int]()
        for interval, copy, workspace, place in zip(
            simulation.intervals, placing.copies, placing.workspaces, places, strict=True
        ):
            if workspace is not None:
                offsets[workspace] = place[1] * scale
            if graph.sizes[interval.node]:
                moved |= copy in placed and offsets[copy] != place[0] * scale
                offsets[copy] = place[0] * scale
                placed.add(copy)
        if moved:
            return search_arena(placing.buffers, self.alignment, enough=self.instance.budget)
        return Arena(placing.buffers, tuple(offsets), self.alignment)

    def bounded(self, bound: int) -> None:
        self.bound = max(self.bound, bound * self.data.duration_scale)

    def answer(self, outcome: Outcome) -> JointAnswer:
        """What the run has come to. If the shortest schedule of the model has no arena, its duration is a bound."""
        status = outcome.status
        if status == "optimal" and self.duration is not None:
            self.bound = max(self.bound, self.duration)
        found = None if self.sequence is None else simulate(self.instance.graph, self.sequence).duration
        if status in ("optimal", "feasible") and found != self.duration:
            status = "unknown" if found is None else "feasible"
        return JointAnswer(status, self.sequence, self.arena, self.bound, outcome.interrupted)
