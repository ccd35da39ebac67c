"""What is known where no plan is within a budget: the computation that needs most memory, and the least memory.

While a computation runs, what it reads, what it makes and its workspace are in memory, together with what may be
computed once only and is read later. That is a floor under every plan; the message names the computation whose floor is
highest. To get the inputs of a computation into memory can take more than the computation itself (see `least_budget`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from moccasin_mzn.api.frontier.least import Least, least_schedules
from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.base.clock import Deadline, never
from moccasin_mzn.base.formatting import count_text, exact_memory_text, memory_text
from moccasin_mzn.bounds.least_budget import least_at_once, least_budget_bound, retained_in_stages
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.heuristics.compiled_searches import can_keep, compiled_for, join
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.pytorch.computations import Computation, Root
from moccasin_mzn.pytorch.gradients import ACCUMULATED, ACTIVATIONS
from moccasin_mzn.pytorch.instructions import Peaks, gradient_bytes, peaks
from moccasin_mzn.pytorch.joint import where
from moccasin_mzn.pytorch.memories import Memories, OneMemory
from moccasin_mzn.pytorch.problem import SCOPE, Accumulation, StepProblem
from moccasin_mzn.pytorch.tracing import Traced
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import STOP, Options
from moccasin_mzn.search.result import Result

_PERCENT = 100
"""A budget of so few bytes was meant as a percentage."""
_MUCH = 0.1
"""A fraction of a step's peak: gradients that take more are named where there is no plan."""
_NAMED = 3
"""This many of the tensors in memory are named in a message."""


@dataclass(frozen=True)
class LargestNeed:
    """No schedule with first computations in the input order takes less memory."""

    node: int
    """The computation that needs most, a position in `graph.nodes`."""
    memory: int
    """In the graph's size unit: what it takes to compute the node."""
    alone: int
    """The part that is in memory while it is computed for the first time: `retained`, and the node's workspace."""
    retained: tuple[int, ...]
    """Nodes whose outputs are in memory then, the largest first."""


def largest_need(instance: Instance, at_once: bool = False) -> LargestNeed:
    """The computation whose proven need of memory is highest, with as few computations as it may have or more.

    Args:
        at_once: leave out the part of what it takes to get inputs into memory that takes longer to find.
    """
    graph, order = instance.graph, instance.order
    alone = retained_in_stages(instance)
    highest = max(range(len(order)), key=lambda stage: (alone[stage], -stage))
    memory, stage = alone[highest], highest
    least = least_at_once(graph) if at_once else least_budget_bound(graph)
    if least.memory > memory:
        memory, stage = least.memory, order.index(least.node)
    retained = _retained(instance, stage)
    return LargestNeed(order[stage], memory, alone[stage], tuple(sorted(retained, key=lambda v: (-graph.sizes[v], v))))


def _retained(instance: Instance, stage: int) -> set[int]:
    """What is in memory in a stage, whatever the schedule."""
    graph, order = instance.graph, instance.order
    node, later = order[stage], set(order[stage:])
    once = {v for v in order[:stage] if instance.max_computations[v] == 1 and later.intersection(graph.successors[v])}
    return {node, *graph.predecessors[node], *once}


def infeasible(problem: StepProblem, instance: Instance, budget: int, proven: int, found: int, eager: int) -> str:
    """One sentence: no plan is within a budget, or none was found; what is known, and which computation needs most.

    Args:
        budget: in bytes.
        proven: no plan takes less; if it is larger than the budget, there is none within it.
        found: what the plan of least peak takes that was found.
        eager: what the step takes without a plan.
    """
    amounts = [memory_text(amount, "byte") for amount in (budget, proven, found)]
    if len(set(amounts)) < len({budget, proven, found}):  # they differ by little
        amounts = [exact_memory_text(amount, "byte") for amount in (budget, proven, found)]
    outcome = "no plan is within it" if proven > budget else "no plan was found"
    share = f", {100 * found / eager:.1f} % of the step without a plan" if eager else ""
    return (
        f"budget {amounts[0]}{_meant(budget)}: {outcome}, it takes at least {amounts[1]}, which is proven, "
        f"and {amounts[2]} with the least plan that was found{share}: {_worst_text(problem, instance)}; "
        f"proofs are about plans {SCOPE}"
    )


def _meant(budget: int) -> str:
    return f" (for {budget} % write {budget}%)" if budget <= _PERCENT else ""


def _worst_text(problem: StepProblem, instance: Instance, at_once: bool = False) -> str:
    worst = largest_need(instance, at_once)
    text = need_text(problem, worst)
    returned = not any(isinstance(meaning, Accumulation) for meaning in problem.meanings)
    if returned and problem.meanings[worst.node] is None:
        text += f" (with gradients={ACCUMULATED!r} none of them is kept to the end)"
    return text


def infeasible_with_copies(problem: StepProblem, instance: Instance, budget: int) -> str:
    """The same where outputs may be copied to host memory: only what one computation touches is sure to be here."""
    graph = instance.graph
    need = graph.largest_working_set()
    retained = tuple(sorted({need.node, *graph.predecessors[need.node]}, key=lambda v: (-graph.sizes[v], v)))
    outcome = "no plan is within it" if need.memory > budget else "no plan was found"
    text = need_text(problem, LargestNeed(need.node, need.memory, need.memory, retained))
    return f"budget {memory_text(budget, 'byte')}: {outcome}: {text}"


def need_text(problem: StepProblem, found: LargestNeed) -> str:
    """Name the computation that needs most, and what it needs the memory for."""
    name, alone = called(problem, found.node), memory_text(found.alone, "byte")
    parts = f"{alone}: {_parts(problem, found)}"
    if found.memory == found.alone:
        return f"{name} alone needs {parts}"
    takes = memory_text(found.memory, "byte")
    return f"{name} takes {takes}, however its inputs are computed, and alone needs {parts}"


def _parts(problem: StepProblem, found: LargestNeed) -> str:
    graph = problem.graph
    parts = [
        (graph.sizes[v], "its own output" if v == found.node else called(problem, v))
        for v in found.retained
        if graph.sizes[v]
    ]
    if graph.workspace_of[found.node]:
        parts.append((graph.workspace_of[found.node], "its workspace"))
    parts.sort(key=lambda part: -part[0])
    rest = parts[_NAMED:]
    if rest:
        parts[_NAMED:] = [(sum(amount for amount, _ in rest), count_text(len(rest), "other"))]
    return ", ".join(f"{memory_text(amount, 'byte')} of {what}" for amount, what in parts)


def called(problem: StepProblem, v: int) -> str:
    """A node for people: its operators with their module, and its name in the trace."""
    meaning = problem.meanings[v]
    if isinstance(meaning, Computation):
        operators = " + ".join(where(member.node) for member in meaning.members)
        return f"{operators} ({problem.graph.nodes[v]})"
    if isinstance(meaning, Root) and meaning.given is not None:
        return f"the {meaning.given.name}"
    return "the end of the step" if meaning is None else node_text(problem.graph, v)


# --- What is known of a budget beyond the plan that was found, or was not -------------------------------------


def unlimited(traced: Traced, most: int) -> Instance:
    """The question without a budget."""
    return Instance.build(traced.problem.graph, "100%", max_computations=traced.problem.counts(most))


@dataclass(frozen=True, eq=False)
class LeastFound:
    """The schedule of least memory among those of least peak, constants and copies included."""

    least: Least
    sequence: tuple[int, ...]
    peaks: Peaks

    @classmethod
    def of(cls, traced: Traced, least: Least, over: Callable[[], bool] = never) -> LeastFound:
        """Choose among schedules, sorted by peak; the first one alone if there is no time for others."""
        taken: dict[tuple[int, ...], Peaks] = {}
        for sequence in least.sequences:
            if not taken or not over():
                taken[sequence] = peaks(traced.linear(sequence))
        best = min(taken, key=lambda sequence: taken[sequence].whole)
        return cls(least, best, taken[best])


def left(deadline: Deadline) -> float:
    """Seconds that are left; infinitely many without a limit."""
    remaining = deadline.remaining()
    return math.inf if remaining is None else remaining


def least_in_time(
    instance: Instance, options: Options, deadline: Deadline, stop: Callable[[], bool] = never, enough: int = 0,
    known: Sequence[int] | None = None,
) -> Least:  # fmt: skip
    """Schedules of ever less peak, as `least_schedules`, within a deadline that is for all: where what searches is not
    compiled and loaded by then, those that need no search."""
    searches = compiled_for(instance.free_order)
    if can_keep() and not join(lambda: stop() or deadline.over(), lambda: left(deadline), *searches):
        options, deadline = replace(options, search="off"), Deadline(0.0)
    return least_schedules(instance, options, deadline, stop, enough, known)


def proven_at_once(problem: StepProblem, instance: Instance) -> int:
    """No plan takes less, however its backward pass is ordered: the part of that which takes no search.

    The forward pass comes first and keeps its order, so that what is computed only once and is read later is there.
    """
    moves = any(problem.movable) and max(instance.max_computations) > 1
    stages = zip(instance.order, retained_in_stages(instance), strict=True)
    sure = [memory for v, memory in stages if not moves or not problem.is_backward(v)]
    return max(least_at_once(instance.graph).memory, *sure)


def proven_however_moved(problem: StepProblem, instance: Instance) -> int:
    """No plan takes less, however its backward pass is ordered."""
    return max(proven_at_once(problem, instance), least_budget_bound(instance.graph).memory)


def why_impossible(traced: Traced, instance: Instance, amount: int, eager: int | None, at_once: bool) -> str:
    """That no plan is within a budget, where that is known without a search; "": it is not.

    Args:
        instance: the question without a budget.
        amount: the budget, in bytes.
        eager: what the step takes without a plan; None: it is not known.
        at_once: leave out the part of what it takes to get inputs into memory that takes longer to find.
    """
    pairs = zip(instance.graph.sizes, traced.problem.meanings, strict=True)
    of_caller = sum(size for size, meaning in pairs if isinstance(meaning, Root))  # gradients of outputs
    proven = proven_at_once(traced.problem, instance) - of_caller
    at_once |= proven > amount
    if not at_once:
        proven = max(proven, least_budget_bound(instance.graph).memory - of_caller)
    if proven <= amount:
        return ""
    amounts = [memory_text(each, "byte") for each in (amount, proven)]
    if len(set(amounts)) == 1:
        amounts = [exact_memory_text(each, "byte") for each in (amount, proven)]
    share = f", {100 * proven / eager:.1f} % of the step without a plan" if eager else ""
    without = "" if traced.costs is not None else " (what operators take inside is not counted)"
    without += "" if max(instance.max_computations) > 1 else f", of plans {SCOPE}"
    return (
        f"budget {amounts[0]}{_meant(amount)}: no plan is within it, it takes at least {amounts[1]}{share}, which is "
        f"proven without a search{without}, and budget='least' seeks the least plan: "
        f"{_worst_text(traced.problem, instance, at_once)}{_of_activations(traced, amount, None, eager or 0)}"
    )


def why_none(traced: Traced, found: LeastFound, amount: int, result: Result | None, eager: int) -> str:
    """That there is no plan, what is proven, the least that was found, and which computation needs most.

    Args:
        amount: the budget, in bytes.
        result: of the latest search; None: none was begun.
        eager: what the step takes without a plan.
    """
    lacking, seen = result.shortfall if result is not None else None, found.peaks.whole
    proven = max(found.least.proven, lacking.floor if lacking else 0)
    if traced.problem.reordered:
        proven = proven_however_moved(traced.problem, found.least.instance)
    text = infeasible(traced.problem, found.least.instance, amount, min(proven, seen), seen, eager)
    return text + _of_activations(traced, amount, seen, eager)


def _of_activations(traced: Traced, amount: int, seen: int | None, eager: int) -> str:
    """What the budget and the least plan are of the activations, where gradients that stay are much of the step.

    Args:
        seen: what the least plan takes; None: none was sought.
    """
    stays = gradient_bytes(traced.linear(traced.problem.graph.input_order()))
    if stays < _MUCH * eager or stays >= eager:
        return ""
    asked = (amount - stays) / (eager - stays)
    alone = "more than the budget" if asked < 0 else f"the budget is {100 * asked:.0f} % of what is above them"
    text = (
        f"; {memory_text(stays, 'byte')} of every plan's step are gradients, which stay: {alone}; with "
        f"of={ACTIVATIONS!r} a fraction is of what is above them"
    )
    return text if seen is None else f"{text}, and {(seen - stays) / (eager - stays):.2f} is the least that was found"


def bound_within(result: Result, amount: int, memory: Memories, begin: float, stop: Callable[[], bool] = never) -> int:
    """What is proven of durations within all of a budget, where constants and copies have left less to the search.

    Args:
        begin: of the search, by `time.monotonic()`; it takes as long again, and a second.
        stop: ends that by returning true.
    """
    if result.instance.budget >= amount:
        return result.bound
    if result.interrupted or stop() or not isinstance(memory, OneMemory):
        return result.instance.baseline.duration
    spent = time.monotonic() - begin
    seconds = min(2 * spent + 1, memory.options.time_limit or math.inf)
    instance = replace(result.instance, budget=amount)
    options = replace(memory.options, time_limit=seconds, if_none=STOP)
    return solve_instance(instance, options, Call(stop=stop, begin=begin), result.sequence).bound
