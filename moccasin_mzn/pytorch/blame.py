"""What to blame where no plan is within a budget: the computation that no plan can run in less memory.

While a computation runs, what it reads, what it makes and its workspace are in memory, and beside them what may be
computed once only and is read later. That is a floor under every plan; the computation whose floor is highest is to
blame. To get the inputs of a computation into memory can take more than the computation itself (see `least_budget`).
"""

from __future__ import annotations

from dataclasses import dataclass

from moccasin_mzn.bounds.least_budget import held_in_stages, least_budget_bound
from moccasin_mzn.formatting import count_text, exact_memory_text, memory_text
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.pytorch.accumulating import ACCUMULATED
from moccasin_mzn.pytorch.computations import Computation, Root
from moccasin_mzn.pytorch.joint import where
from moccasin_mzn.pytorch.problem import Accumulation, Planned

_NAMED = 3
"""So many of the tensors in memory are named in a message."""


@dataclass(frozen=True)
class Blame:
    """No schedule with first computations in the input order takes less memory."""

    node: int
    """The computation to blame, a position in `graph.nodes`."""
    memory: int
    """In the graph's size unit: what it takes to compute the node."""
    alone: int
    """Of that, what is in memory while it is computed for the first time: `held`, and the node's workspace."""
    held: tuple[int, ...]
    """Nodes whose outputs are in memory then, the largest first."""


def blame(instance: Instance) -> Blame:
    """The computation whose proven need of memory is highest, with as few computations as it may have or more."""
    graph, order = instance.graph, instance.order
    alone = held_in_stages(instance)
    highest = max(range(len(order)), key=lambda stage: (alone[stage], -stage))
    least = least_budget_bound(graph)
    memory, stage = alone[highest], highest
    if least.memory > memory:
        memory, stage = least.memory, order.index(least.node)
    held = _held(instance, stage)
    return Blame(order[stage], memory, alone[stage], tuple(sorted(held, key=lambda v: (-graph.sizes[v], v))))


def _held(instance: Instance, stage: int) -> set[int]:
    """What is in memory in a stage, whatever the schedule."""
    graph, order = instance.graph, instance.order
    node, later = order[stage], set(order[stage:])
    once = {v for v in order[:stage] if instance.max_computations[v] == 1 and later.intersection(graph.successors[v])}
    return {node, *graph.predecessors[node], *once}


def infeasible(problem: Planned, instance: Instance, budget: int, proven: int, found: int) -> str:
    """One sentence: that there is no plan within a budget, or that none was found, what is known, what is to blame.

    Args:
        budget: in bytes.
        proven: no plan takes less; a larger number than the budget says that there is none within it.
        found: what the plan of least peak takes that was found.
    """
    amounts = [memory_text(amount, "byte") for amount in (budget, proven, found)]
    if len(set(amounts)) < len({budget, proven, found}):  # they differ by little
        amounts = [exact_memory_text(amount, "byte") for amount in (budget, proven, found)]
    outcome = "no plan is within it" if proven > budget else "no plan was found"
    worst = blame(instance)
    told = blame_text(problem, worst)
    returned = not any(isinstance(meaning, Accumulation) for meaning in problem.meanings)
    if returned and problem.meanings[worst.node] is None:
        told += f" (gradients {ACCUMULATED} are not held)"
    return (
        f"budget {amounts[0]}: {outcome}, it takes at least {amounts[1]}, which is proven, "
        f"and {amounts[2]} with the least plan that was found: {told}"
    )


def infeasible_with_copies(problem: Planned, instance: Instance, budget: int) -> str:
    """The same where outputs may be copied to slow memory: only what one computation touches is sure to be here."""
    graph = instance.graph
    need = graph.largest_working_set()
    held = tuple(sorted({need.node, *graph.predecessors[need.node]}, key=lambda v: (-graph.sizes[v], v)))
    outcome = "no plan is within it" if need.memory > budget else "no plan was found"
    told = blame_text(problem, Blame(need.node, need.memory, need.memory, held))
    return f"budget {memory_text(budget, 'byte')}: {outcome}: {told}"


def blame_text(problem: Planned, found: Blame) -> str:
    """In a few words what is to blame, and for what."""
    name, alone = called(problem, found.node), memory_text(found.alone, "byte")
    parts = f"{alone}: {_parts(problem, found)}"
    if found.memory == found.alone:
        return f"{name} alone holds {parts}"
    takes = memory_text(found.memory, "byte")
    return f"{name} takes {takes}, however its inputs are computed, and alone holds {parts}"


def _parts(problem: Planned, found: Blame) -> str:
    graph = problem.graph
    parts = [
        (graph.sizes[v], "its own output" if v == found.node else called(problem, v))
        for v in found.held
        if graph.sizes[v]
    ]
    if graph.workspace_of[found.node]:
        parts.append((graph.workspace_of[found.node], "its workspace"))
    parts.sort(key=lambda part: -part[0])
    rest = parts[_NAMED:]
    if rest:
        parts[_NAMED:] = [(sum(amount for amount, _ in rest), count_text(len(rest), "other"))]
    return ", ".join(f"{memory_text(amount, 'byte')} of {what}" for amount, what in parts)


def called(problem: Planned, v: int) -> str:
    """A node for people: its operators with their module, and its name in the trace."""
    meaning = problem.meanings[v]
    if isinstance(meaning, Computation):
        operators = " + ".join(where(member.node) for member in meaning.members)
        return f"{operators} ({problem.graph.nodes[v]})"
    if isinstance(meaning, Root) and meaning.given is not None:
        return f"the {meaning.given.name}"
    return "the end of the step" if meaning is None else node_text(problem.graph, v)
