"""What a search has proven, in words."""

from __future__ import annotations

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.best_known import Record
from moccasin_mzn.search.doubles import CONFIRMED
from moccasin_mzn.search.options import Options
from moccasin_mzn.words import count_text, memory_text

LOCAL_SEARCH, RELAXATION = "local search", "relaxation"
SEARCH = "search"
"""Both of them, as one contestant in a race of solvers."""


def conclude(record: Record, options: Options, ending: str, racing: bool = False) -> tuple[str, str]:
    """Status and reason of a result, see `Result`.

    Args:
        ending: how the search ended if not by a proof, such as "within the time limit".
        racing: the reason names who proved it, and who found the schedule.
    """
    instance = record.instance
    if record.infeasible_source:
        source = record.infeasible_source
        by = _by(source, racing)
        within = f"fits the budget {memory_text(instance.budget, instance.graph.size_unit)}"
        ranges = scope(instance, options, source)
        return "infeasible", f"proven{by}: no schedule {ranges} {within}{_what_stages_keep(options, ranges)}"
    if record.sequence is None:
        return "unknown", record.claim or f"no schedule was found {ending}"
    found = f"; found by {record.sequence_source}" if racing else ""
    if record.duration == record.bound:
        by = _by(record.bound_source, racing)
        return "optimal", f"proven{by}: no schedule {scope(instance, options, record.bound_source)} is shorter{found}"
    if record.gap <= record.until_gap:
        return "feasible", f"stopped at a gap of {100 * record.gap:.3f} %{found}"
    claim = f"; {record.claim}" if record.claim else ""
    return "feasible", f"no proof was found {ending}{claim}{found}"


def _by(source: str, racing: bool) -> str:
    """Who proved it, where there was more than one who could have."""
    return f" by {source}" if source and (racing or CONFIRMED in source) else ""


def scope(instance: Instance, options: Options, source: str) -> str:
    """What a proof by `source` ranges over."""
    if not options.form.limited:
        return "in stages of the input order, with any number of recomputations,"
    counts = sorted(set(instance.max_computations))
    most = f"{counts[0]} to " if len(counts) > 1 else ""
    kind = ""
    if instance.free_order:
        kind = "in any order "
    elif source in (RELAXATION, SEARCH):
        kind = "with first computations in the input order and "
    elif options.form.staged:
        kind = "in stages of the input order "
    return f"{kind}with at most {most}{count_text(counts[-1], 'computation')} per node"


def _what_stages_keep(options: Options, ranges: str) -> str:
    """What lies outside of a proof about schedules that keep the input order."""
    if "the input order" not in ranges:
        return ""
    kept = "; a stage ends with the first computation of its node, and stages keep the input order"
    if not options.form.limited:
        return f"{kept}: another order (--formulation staged --order free) may fit"
    return f"{kept}: another order (--order free) or more computations per node (--max-computations) may fit"
