"""What a search has proven, in words."""

from __future__ import annotations

from dataclasses import replace

from moccasin_mzn.formulations import Formulation
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.doubles import CONFIRMED
from moccasin_mzn.words import count_text

LOCAL_SEARCH, RELAXATION = "local search", "relaxation"
FLOW_COVERS = "flow covers"
"""Their proofs hold in any order with any number of computations, whatever was asked."""
MOMENTS = "moments"
"""Beside them: their proofs hold in any order."""
SEARCH = "search"
"""Both of them, as one contestant in a race of solvers; or the search for plans."""


def conclude(record: Board, form: Formulation | PlanFormulation, ending: str, racing: bool = False) -> tuple[str, str]:
    """Status and reason of a result, see `Result`.

    Args:
        ending: how the search ended if not by a proof, such as "within the time limit".
        racing: the reason names who proved it, and who found the answer.
    """
    problem = record.problem
    noun = problem.noun
    if record.infeasible_source:
        source = record.infeasible_source
        ranges = scope(problem, form, source)
        kept = _what_stages_keep(form, ranges)
        return "infeasible", f"proven{_by(source, racing)}: no {noun} {ranges} {problem.within}{kept}"
    if record.answer is None:
        return "unknown", record.claim or f"no {noun} was found {ending}"
    found = f"; found by {record.found_by}" if racing else ""
    if record.value == record.bound and not record.bound_source and not problem.seeks_peak:
        return "optimal", f"no {noun} {problem.better} than every node computed once{found}"
    if record.value == record.bound:
        by, ranges = _by(record.bound_source, racing), scope(problem, form, record.bound_source)
        return "optimal", f"proven{by}: no {noun} {ranges} {problem.better}{found}"
    if record.gap <= record.until_gap:
        return "feasible", f"stopped at a gap of {100 * record.gap:.3f} %{found}"
    claim = f"; {record.claim}" if record.claim else ""
    return "feasible", f"no proof was found {ending}{claim}{found}"


def _by(source: str, racing: bool) -> str:
    """Who proved it, where there was more than one who could have."""
    return f" by {source}" if source and (racing or CONFIRMED in source) else ""


def scope(problem: Problem, form: Formulation | PlanFormulation, source: str = "") -> str:
    """What a proof by `source` ranges over, to be read after "no schedule"."""
    if isinstance(form, Formulation) and form.model:
        return f"that {form.file.name} has as a solution {scope(problem, replace(form, model=''), source)}"
    if source.rpartition(", ")[2] == FLOW_COVERS:
        return "in any order with any number of computations"
    if not form.limited:
        return "in stages of the input order, with any number of recomputations,"
    counts, (one, of_what) = sorted(set(problem.instance.max_computations)), problem.counted
    most = f"{counts[0]} to " if len(counts) > 1 else ""
    kind = ""
    if problem.instance.free_order or (isinstance(form, PlanFormulation) and not form.staged):
        kind = "in any order "
    elif source.rpartition(", ")[2] in (RELAXATION, SEARCH) and problem.seeks_peak:
        kind = "with first computations in the input order and "
    elif form.staged:
        kind = "in stages of the input order "
    return f"{kind}with at most {most}{count_text(counts[-1], one)} {of_what}"


def _what_stages_keep(form: Formulation | PlanFormulation, ranges: str) -> str:
    """What lies outside of a proof about answers that keep the input order."""
    if "the input order" not in ranges:
        return ""
    kept = "; a stage ends with the first computation of its node, and stages keep the input order"
    if not form.limited:
        return f"{kept}: another order (--formulation staged --order free) may fit"
    return f"{kept}: another order (--order free) or more computations per node (--max-computations) may fit"
