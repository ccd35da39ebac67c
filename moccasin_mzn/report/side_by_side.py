"""What a person sees of a plan beside the network without it: lines while it is sought, a table at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from moccasin_mzn.extensions.paging.build import SLOW
from moccasin_mzn.formatting import count_text, memory_text
from moccasin_mzn.pytorch.gradients import ACCUMULATED
from moccasin_mzn.report.progress_lines import Lines
from moccasin_mzn.report.tables import console, plain_table, print_lines, print_table

if TYPE_CHECKING:
    from moccasin_mzn.pytorch.planning import Plan
    from moccasin_mzn.pytorch.side_by_side import Measured, SideBySide
    from moccasin_mzn.search.result import Progress

_HEADINGS = {
    "allocator_peak": "allocator", "storage_peak": "storages", "first_peak": "first step", "slow_peak": "slow memory"
}  # fmt: skip
_UNEQUAL_SHOWN = 5


class SearchLines(Lines):
    """Prints a line for each plan and each bound that is better, at most a few per second."""

    def __call__(self, progress: Progress) -> None:
        """Print the line, or hold it back if one was printed just before."""
        text = "no plan yet"
        if progress.phase != "peak" and progress.value is not None:
            gap = 100 * (progress.value - progress.bound) / progress.value if progress.value else 0.0
            text = f"a plan with {_plan_text(progress.figures)}, gap {gap:.3f} %"
        elif "peak" in progress.figures:
            text += f", the least peak is {memory_text(progress.peak, 'byte')}"
        self._tell(progress.seconds, text, at_once=False)


def _plan_text(figures: Mapping[str, Any]) -> str:
    """What a plan does; `figures` are of `Problem.figures`."""
    if "recomputations" in figures:
        return f"{count_text(figures['recomputations'], 'computation')} done again"
    peaks = tuple(figures["peaks"].values())
    return f"{memory_text(peaks[SLOW], 'byte')} in slow memory"


def print_side_by_side(found: Plan, beside: SideBySide, out: TextIO) -> None:
    """Both, what was predicted, and whether all is equal."""
    predicted = _predicted(found)
    amounts = [heading for what in predicted for heading in (_HEADINGS[what], "predicted")]
    table = plain_table(None, ("", *amounts, "ms", "over eager", "predicted"), left=("",))
    if beside.eager is not None:
        table.add_row("eager", *_cells(beside.eager, dict.fromkeys(predicted)), "-", "-")
    increases = (_percent(increase) for increase in (beside.increase, found.predicted_increase))
    table.add_row("plan", *_cells(beside.plan, predicted), *increases)
    to = console(out)
    print_lines(to, found.report().splitlines())
    print_table(to, table)
    print_lines(to, [verdict(beside)])


def _predicted(found: Plan) -> dict[str, int | None]:
    """What is shown of the plan, by the name of what was measured of it."""
    told: dict[str, int | None] = {"allocator_peak": found.predicted_peak, "storage_peak": found.predicted_storage_peak}
    if found.traced.gradients == ACCUMULATED:
        told["first_peak"] = found.first_peak
    if found.copies:
        told["slow_peak"] = found.predicted_slow_peak
    return told


def verdict(beside: SideBySide) -> str:
    """Whether all is equal, in a sentence."""
    steps = count_text(beside.steps, "step")
    if beside.equal is None:
        return f"{steps} with the plan; without it there is too little memory, so that nothing is compared"
    if beside.equal:
        return f"equal after {steps}, bit for bit: outputs, gradients, parameters, buffers, the random state"
    those = ", ".join(beside.unequal[:_UNEQUAL_SHOWN])
    more = len(beside.unequal) - _UNEQUAL_SHOWN
    those += f" and {more} more" if more > 0 else ""
    hint = f" ({beside.hint})" if beside.hint else ""
    return f"not equal after {steps}: {those}; the largest difference is {beside.largest_difference:.3g}{hint}"


def side_by_side_dict(found: Plan, beside: SideBySide) -> dict[str, Any]:
    """All figures, for JSON: memory in bytes, time in seconds, increases of the time as fractions."""
    return {
        "status": found.status,
        "budget": found.budget,
        "nodes": len(found.graph.nodes),
        "gradients": found.traced.gradients,
        "recomputations": found.recomputations,
        "copies": found.copies,
        "least_proven": found.least_proven,
        "predicted_peak": found.predicted_peak,
        "predicted_storage_peak": found.predicted_storage_peak,
        "predicted_first_peak": found.first_peak,
        "predicted_slow_peak": found.predicted_slow_peak,
        "predicted_increase": found.predicted_increase,
        "bound": found.bound,
        **beside.as_dict(),
    }


def _percent(increase: float | None) -> str:
    return "-" if increase is None else f"{100 * increase:+.1f} %"


def _cells(side: Measured, predicted: Mapping[str, int | None]) -> list[str]:
    amounts = [amount for what, told in predicted.items() for amount in (getattr(side, what), told)]
    return [*("-" if each is None else memory_text(each, "byte") for each in amounts), f"{1000 * side.median:,.2f}"]
