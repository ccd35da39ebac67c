"""Conclusions as text: what is known without a search, and what a search has proven in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from moccasin_mzn.base.formatting import count_text, memory_text, over_text
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.formulations.searched import Searched
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem, why_impossible
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.result import Status
from moccasin_mzn.solvers.minizinc.run import Outcome
from moccasin_mzn.solvers.minizinc.solvers import Backend, Sum

LOCAL_SEARCH, RELAXATION = "local search", "relaxation"
FLOW_COVERS = "flow covers"
"""The search whose proofs hold in any order with any number of computations, whatever the problem."""
MOMENTS = "moments"
"""The search alongside flow covers whose proofs hold in any order."""
SEARCH = "search"
"""Local search and relaxation together, as one contestant in a race of solvers; or the search for plans."""


def conclude(record: Board, form: Searched, ending: str, racing: bool = False) -> tuple[Status, str]:
    """Return status and reason of a result, see `Result`.

    Args:
        ending: how the search ended if not by a proof, such as "within the time limit".
        racing: the reason names who proved it, and who found the answer.
    """
    problem = record.problem
    if record.infeasible_source:
        source = record.infeasible_source
        ranges = scope(problem, form, source)
        kept = _what_stages_keep(form, ranges)
        return "infeasible", f"proven{_by(source, racing)}: no schedule {ranges} {problem.within}{kept}"
    if record.answer is None:
        return "unknown", record.claim or f"no schedule was found {ending}"
    found = f"; found by {record.found_by}" if racing else ""
    if record.value == record.bound and not record.bound_source:
        return "optimal", f"no schedule {problem.better} than every node computed once{found}"
    if record.value == record.bound:
        by, ranges = _by(record.bound_source, racing), scope(problem, form, record.bound_source)
        return "optimal", f"proven{by}: no schedule {ranges} {problem.better}{found}"
    gap = record.gap
    if gap is not None and gap <= record.until_gap:
        return "feasible", f"stopped at a gap of {100 * gap:.3f} %{found}"
    claim = f"; {record.claim}" if record.claim else ""
    return "feasible", f"no proof was found {ending}{claim}{found}"


def _by(source: str, racing: bool) -> str:
    """Return " by " and who proved it, where more than one could have."""
    return f" by {source}" if source and (racing or CONFIRMED in source) else ""


ANY_ORDER = "in any order with any number of computations"
"""The widest scope: all schedules."""


def scope(problem: Problem, form: Searched, source: str = "") -> str:
    """Return the scope of a proof by `source`, to be read after "no schedule": order, computations, whether in place.

    Every message that claims something of all schedules names it so; `tests/house/test_claimed_scopes.py` finds them.
    """
    ranges = _scope(problem, form, source)
    return ranges if problem.graph.overwritable is None else f"{ranges.rstrip(',')}, run in place,"


def scope_of_all(graph: ComputationGraph) -> str:
    """Return the scope of what holds of all schedules of a graph, as `scope` does."""
    return ANY_ORDER if graph.overwritable is None else f"{ANY_ORDER}, run in place,"


def _scope(problem: Problem, form: Searched, source: str) -> str:
    if isinstance(form, Formulation) and form.model:
        return f"that {form.file.name} has as a solution {_scope(problem, replace(form, model=''), source)}"
    if source.rpartition(", ")[2] == FLOW_COVERS:
        return ANY_ORDER
    if not form.limited:
        return "in stages of the input order, with any number of recomputations,"
    counts, (one, of_what) = sorted(set(problem.instance.max_computations)), problem.counted
    most = f"{counts[0]} to " if len(counts) > 1 else ""
    kind = ""
    if problem.instance.free_order or form.is_open:
        kind = "in any order "
    elif source.rpartition(", ")[2] in (RELAXATION, SEARCH):
        kind = "with first computations in the input order and "
    elif form.staged:
        kind = "in stages of the input order "
    return f"{kind}with at most {most}{count_text(counts[-1], one)} {of_what}"


def _what_stages_keep(form: Searched, ranges: str) -> str:
    """Return what lies outside of a proof about answers that keep the input order."""
    if "the input order" not in ranges:
        return ""
    kept = "; a stage ends with the first computation of its node, and stages keep the input order"
    if not form.limited:
        return f"{kept}: another order (--formulation staged --order free) may fit"
    if isinstance(form, Formulation) and form.model:
        return f"{kept}: more computations per node (--max-computations), or fewer constraints in the model, may fit"
    return f"{kept}: another order (--order free) or more computations per node (--max-computations) may fit"


# --- Budgets with which there is nothing to search for: the input order fits, or nothing ever does ------------


INPUT_ORDER = "the input order"
"""Name of who found the schedule where the input order fits."""
FAR = 20
"""Factor by which no intended budget is too small; chosen by judgement."""


Known = tuple[Status, str, tuple[Any, ...] | None]
"""A status, its reason, and the schedule if there is one."""


@singledispatch
def known_at_once(problem: Problem) -> Known | None:
    """Return status, reason and schedule where no search is needed, else None."""
    return _known_of_one_memory(problem.instance)


@known_at_once.register(PlanProblem)
def _known_of_plans(problem: PlanProblem) -> Known | None:
    why = why_impossible(problem)
    return None if why is None else ("infeasible", why, None)


def _known_of_one_memory(instance: Instance) -> Known | None:
    graph, budget = instance.graph, instance.budget
    if instance.baseline.peak <= budget:
        return "optimal", "the input order fits the budget with every node computed once", instance.order
    unit = graph.size_unit
    left = f", which fixed memory of {memory_text(instance.fixed, unit)} leaves" if instance.fixed else ""
    need = graph.largest_working_set()
    if need.memory > budget:
        what = (
            f"its inputs, its output{'s' if graph.outputs_of[need.node] else ''} and its workspace"
            if graph.workspaces is not None and graph.workspaces[need.node]
            else f"its inputs and its output{'s' if graph.outputs_of[need.node] else ''}"
        )
        what += ", in place" if graph.spared[need.node] else ""
        reason = (
            f"node {node_text(graph, need.node)} alone needs {memory_text(need.memory, unit)} for {what}, "
            f"{over_text(need.memory, budget, unit)}{left}{_share_meant(budget, need.memory)}"
        )
        return "infeasible", reason, None
    from moccasin_mzn.bounds.least_budget import least_budget_bound

    least = least_budget_bound(graph, budget)
    if least.memory > budget:
        reason = (
            f"to compute node {node_text(graph, least.node)} takes {memory_text(least.memory, unit)}, however its "
            f"inputs are recomputed, {over_text(least.memory, budget, unit)}{left}"
        )
        return "infeasible", reason, None
    return None


def _share_meant(budget: int, needed: int) -> str:
    """Return a hint for budgets that look like a number of percent: far too small, and at most 100."""
    if not 1 < budget <= 100 or needed < FAR * budget:
        return ""
    return f"; {budget} percent of the input order's peak is the budget {budget}%"


# --- What solvers in floating point prove of a model: MIP solvers, whose tolerances hide a unit of large sums --

# Ours see to it themselves (`linear.claims`): they prove in exact arithmetic, have a claim confirmed, or report it as
# a claim. Results of others on a model with large sums are claims.


LARGEST = 250_000
"""Largest sum in which the usual tolerance of 10^-6 hides no more than a quarter of a unit."""

CONFIRMED = ", confirmed by "
"""Text between the name of a solver and that of who confirmed its claim."""


@dataclass(frozen=True)
class Verdict:
    """The verdict of a run: what is proven by its end, and what is only claimed."""

    status: str
    """Proven status, with the values of `Outcome`."""
    source: str
    """Name of who proved it."""
    claim: str
    """"optimal" or "infeasible", where only the solver claims it; else empty."""


def doubtful(backend: Backend, sums: Callable[[], Iterable[Sum]]) -> bool:
    """Return whether the results of the solver on a model with such sums are only claims."""
    return backend.in_floating_point and not backend.is_own and any(sum(one.terms) > LARGEST for one in sums())


def verdict(backend: Backend, outcome: Outcome, doubted: bool) -> Verdict:
    """Return the verdict of the end of a run; `doubted` as returned by `doubtful`."""
    if doubted and outcome.status in ("optimal", "infeasible"):
        return Verdict("unknown", backend.name, outcome.status)
    return Verdict(outcome.status, source(backend, outcome.confirmed_by), outcome.claim)


def source(backend: Backend, confirmed_by: str) -> str:
    """Return who proves the results of a solver, such as "cp-sat" or "highs, confirmed by CP-SAT"."""
    return f"{backend.name}{CONFIRMED}{confirmed_by}" if confirmed_by else backend.name
