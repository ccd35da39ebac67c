"""A second judge for schedules: the solution checkers among the models, run by MiniZinc.

They share no code with the simulator, nor a formula with the models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from moccasin_mzn.base.formatting import duration_text, memory_text
from moccasin_mzn.formulations import encode, find_formulation
from moccasin_mzn.formulations.checkers import SCHEDULES, CheckError, run_checker
from moccasin_mzn.formulations.presolve import ModelData, presolve
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation
from moccasin_mzn.solvers.minizinc.run import Value


def check_schedule(
    instance: Instance, sequence: Sequence[int], simulation: Simulation, data: ModelData | None = None,
    more: Mapping[str, Value] | None = None,
) -> str:  # fmt: skip
    """The verdict of `models/general.mzc.mzn` on a schedule in any order, as retention intervals of free events: one
    line, in the units of the graph.

    Args:
        data: that of the model, with as many computations as the schedule has; None: that of a model without offsets.
        more: items that this model does not have.

    Raises:
        CheckError: it is rejected, or its duration or peak differ from the simulator's.
        InputError: MiniZinc is missing or failed.
    """
    graph = instance.graph
    data = computed_data(presolve(instance, staged=False), sequence) if data is None else data
    form = find_formulation("general")
    intervals = encode(graph, data, sequence, staged=False)
    solution: dict[str, Value] = {
        "active": intervals.active,
        "computed_node": data.computation_nodes,
        "start": intervals.start,
        "end": intervals.end,
        "total_duration": simulation.duration // data.duration_scale,
        "capacity": max(data.budget, simulation.peak // data.size_scale),  # more than the budget is for the simulator
        "offset": (),
        "workspace_offset": (),
        **(more or {}),
    }
    verdict = run_checker(form.checker, {**form.data_items(graph, data), **solution})
    found = SCHEDULES.fullmatch(verdict)
    if found is None:
        raise CheckError(f"{form.checker} rejects the schedule: {verdict}")
    duration, peak = int(found[1]) * data.duration_scale, int(found[2]) * data.size_scale
    if (duration, peak) != (simulation.duration, simulation.peak):
        raise CheckError(
            f"{form.checker} finds duration {duration} and peak {peak}, "
            f"the simulator {simulation.duration} and {simulation.peak}"
        )
    figures = duration_text(duration, graph.duration_unit), memory_text(peak, graph.size_unit)
    return "{}: CORRECT: duration {}, peak {}".format(form.checker, *figures)


def computed_data(data: ModelData, sequence: Sequence[int]) -> ModelData:
    """The data of a model in which each node may be computed as often as in a schedule."""
    computed = Counter(sequence)
    return replace(data, max_computations=tuple(computed[v] for v in data.order))
