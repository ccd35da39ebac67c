"""What a search for plans has proven, in words."""

from __future__ import annotations

from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.plan_record import PlanRecord
from moccasin_mzn.words import count_text


def plan_scope(problem: PlanProblem, formulation: PlanFormulation) -> str:
    """What proofs of a formulation range over, to be read after "no plan"."""
    counts = sorted(set(problem.instance.max_computations))
    most = f"{counts[0]} to " if len(counts) > 1 else ""
    intervals = count_text(counts[-1], "retention interval")
    kind = "in stages of the input order" if formulation.staged else "in any order"
    return f"{kind} with at most {most}{intervals} of a node in a memory"


def conclude_plan(record: PlanRecord, scope: str, ending: str) -> tuple[str, str]:
    """Status and reason of a result, see `PlanResult`.

    Args:
        scope: what proofs range over.
        ending: how the search ended if not by a proof, such as "within the time limit".
    """
    what = record.problem.goal.objective
    if record.infeasible_source:
        kept = "stages keep the input order: another order (--order free) or more computations may fit"
        outside = f"; {kept}" if "the input order" in scope else ""
        return "infeasible", f"proven: no plan {scope} keeps within budgets and limits{outside}"
    if record.plan is None:
        return "unknown", record.claim or f"no plan was found {ending}"
    if record.value == record.bound and not record.bound_source:
        return "optimal", f"no plan has less {what} than every node computed once"
    if record.value == record.bound:
        return "optimal", f"proven: no plan {scope} has less {what}"
    if record.gap <= record.until_gap:
        return "feasible", f"stopped at a gap of {100 * record.gap:.3f} %"
    return "feasible", f"no proof was found {ending}" + (f"; {record.claim}" if record.claim else "")
