"""What a search has proven, in words."""

from __future__ import annotations

from moccasin_mzn.doubles import CONFIRMED
from moccasin_mzn.instance import Instance
from moccasin_mzn.options import Options
from moccasin_mzn.record import Record

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
        within = f"fits the budget {instance.budget}"
        return "infeasible", f"proven{by}: no schedule {scope(instance, options, source)} {within}"
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
    most = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    kind = ""
    if instance.free_order:
        kind = "in any order "
    elif source in (RELAXATION, SEARCH):
        kind = "with first computations in the input order and "
    elif options.form.staged:
        kind = "in stages of the input order "
    return f"{kind}with at most {most} computations per node"
