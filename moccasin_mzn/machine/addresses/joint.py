"""Schedule and offsets in one model: the budget is the size of an arena, and what is proven is proven for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import Formulation, find_formulation
from moccasin_mzn.formulations.presolve import ModelData, StageData, presolve, reduced
from moccasin_mzn.formulations.solution_checkers import check_schedule, computed_data
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.addresses.allocate import scale_of
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.features import OF_ONE_MEMORY, Ability, Feature, graph_features
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation, simulate
from moccasin_mzn.problem.placing import placing_of
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.solvers.minizinc.run import Limits, OutputListener, Solution, Value, dzn_text, run_model
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
    return JointAnswer(outcome.status, search.sequence, search.arena, search.bound, outcome.interrupted)


JOINT = Ability("joint models", OF_ONE_MEMORY - {Feature.WORKSPACES, Feature.IN_PLACE, Feature.OUTPUTS})


def is_modelled(graph: ComputationGraph) -> bool:
    """True if each retention interval has an offset of its own, and nothing else has any, as in the joint models."""
    return graph_features(graph) <= JOINT.handles


def check_placed(instance: Instance, sequence: Sequence[int], simulation: Simulation, arena: Arena) -> str:
    """The verdict of `check_schedule` on a schedule and its offsets: what is read as one lies side by side, too.

    Args:
        instance: of a graph as `is_modelled` wants it.

    Raises:
        CheckError, InputError: see `check_schedule`.
    """
    joint = _Joint(instance, arena.alignment, staged=False)
    joint.data = computed_data(joint.data, sequence)
    more: dict[str, Value] = {"offset": joint.slots(sequence, arena), "behind": joint.behind()}
    return check_schedule(instance, sequence, simulation, joint.data, more)


def joint_data(instance: Instance, alignment: int, staged: bool) -> tuple[ModelData, int]:
    """The data of the joint models, and the alignment in their size unit; nothing is presolved away for lack of use."""
    graph, order, tight = instance.graph, instance.order, presolve(instance, staged)
    number = {v: k for k, v in enumerate(order, 1)}
    data = reduced(
        StageData(
            order=order,
            duration=[graph.durations[v] for v in order],
            size=[graph.sizes[v] for v in order],
            workspace=[],
            readers=[sorted(number[x] for x in graph.successors[v]) for v in order],
            budget=_CROWDED,
            most=[instance.max_computations[v] for v in order],
        ),
        staged,
    )
    scale = scale_of(graph.sizes, [alignment])
    data = replace(
        data,
        size_scale=scale,
        size=tuple(graph.sizes[v] // scale for v in order),
        budget=instance.budget // scale,
        input_order_memory=tuple(memory // scale for memory in instance.baseline.memory),
        critical_stage=tight.critical_stage,
    )
    return data, max(1, alignment // scale)


class _Joint:
    """One run: translates solutions, and has each of them judged."""

    def __init__(self, instance: Instance, alignment: int, staged: bool) -> None:
        self.instance, self.alignment, self.staged = instance, alignment, staged
        self.data, self.step = joint_data(instance, alignment, staged)
        self.sequence: tuple[int, ...] | None = None
        self.arena: Arena | None = None
        self.bound = 0

    def items(self, form: Formulation, sequence: Sequence[int] | None, arena: Arena | None) -> dict[str, Value]:
        """The `.dzn` items, with a warm start if it is a solution of the model."""
        slots: list[int] = []
        if sequence is not None and arena is not None and self._has(sequence, arena):
            slots = self.slots(sequence, arena)
        items = form.data_items(self.instance.graph, self.data, sequence if slots else None)
        behind = self.behind()
        items |= {"behind": behind} if any(behind) else {}
        return {**items, "alignment": self.step, **({"incumbent_offset": slots} if slots else {})}

    def behind(self) -> list[int]:
        """For each edge of the data the node directly behind whose output its head reads that of its tail; 0: none."""
        graph, order = self.instance.graph, self.data.order
        number, found = {v: k for k, v in enumerate(order, 1)}, dict[tuple[int, int], int]()
        for x, groups in enumerate(graph.adjacent or ()):
            found |= {(number[v], number[x]): number[u] for group in groups for u, v in pairwise(group)}
        return [found.get(edge, 0) for edge in self.data.edges]

    def _has(self, sequence: Sequence[int], arena: Arena) -> bool:
        """True if it is in stages, with no more computations than allowed and with offsets in the unit of the model."""
        counts = dict(zip(self.data.order, self.data.max_computations, strict=True))
        return (
            all(sequence.count(v) <= most for v, most in counts.items())
            and not any(offset % self.data.size_scale for offset in arena.offsets)
            and not (self.staged and first_out_of_stage(self.instance.order, sequence))
        )

    def slots(self, sequence: Sequence[int], arena: Arena) -> list[int]:
        """The offset of each computation, node by node, in the unit of the model; 0 where it does not take place."""
        copies: dict[int, list[int]] = {v: [] for v in self.data.order}
        for interval, offset in zip(simulate(self.instance.graph, sequence).intervals, arena.offsets, strict=True):
            copies[interval.node].append(offset // self.data.size_scale)
        rows = zip(self.data.order, self.data.max_computations, strict=True)
        return [slot for v, most in rows for slot in (copies[v] + [0] * most)[:most]]

    def solution(self, values: Solution) -> None:
        """Take an improving solution: the arena is judged at birth, the sequence by the simulator."""
        graph, data = self.instance.graph, self.data
        performed = sorted(
            (start, node, offset * data.size_scale)
            for active, start, node, offset in zip(
                values.active, values.start, data.computation_nodes, values.offset, strict=True
            )
            if active
        )
        sequence = tuple(data.order[node - 1] for _, node, _ in performed)
        simulation = simulate(graph, sequence)
        arena = Arena(placing_of(graph, simulation).buffers, tuple(offset for *_, offset in performed), self.alignment)
        claimed = values.objective * data.duration_scale
        if simulation.violations or arena.size > self.instance.budget or simulation.duration != claimed:
            flaw = simulation.violations[0].message if simulation.violations else f"arena {arena.size}"
            raise InputError(f"the joint model returned a schedule of duration {claimed} that is refused: {flaw}")
        self.sequence, self.arena = sequence, arena

    def bounded(self, bound: int) -> None:
        self.bound = max(self.bound, bound * self.data.duration_scale)
