"""What a person sees of a plan beside the network without it: lines while it is sought, a table at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from moccasin_mzn.report.progress_lines import Lines
from moccasin_mzn.report.tables import console, plain_table, print_lines, print_table
from moccasin_mzn.words import count_text, memory_text

if TYPE_CHECKING:
    from moccasin_mzn.pytorch.planning import Plan
    from moccasin_mzn.pytorch.side_by_side import Measured, SideBySide
    from moccasin_mzn.search.progress import Progress

_HEADINGS = ("", "allocator", "predicted", "storages", "predicted", "ms", "over eager", "predicted")
_UNEQUAL_SHOWN = 5


class SearchLines(Lines):
    """Prints a line for each plan and each bound that is better, at most a few per second."""

    def __call__(self, progress: Progress) -> None:
        """Print the line, or hold it back if one was printed just before."""
        if progress.phase == "peak" or progress.value is None:
            text = f"no plan yet, the least peak is {memory_text(progress.peak, 'byte')}"
        else:
            gap = 100 * (progress.value - progress.bound) / progress.value if progress.value else 0.0
            again = count_text(progress.figures["recomputations"], "computation")
            text = f"a plan with {again} done again, gap {gap:.3f} %"
        self._tell(progress.seconds, text, at_once=False)


def print_side_by_side(found: Plan, beside: SideBySide, out: TextIO) -> None:
    """Both, what was predicted, and whether all is equal."""
    table = plain_table(None, _HEADINGS, left=("",))
    if beside.eager is not None:
        table.add_row("eager", *_cells(beside.eager, None, None), "-", "-")
    increases = (_percent(increase) for increase in (beside.increase, found.predicted_increase))
    table.add_row("plan", *_cells(beside.plan, found.predicted_peak, found.predicted_storage_peak), *increases)
    to = console(out)
    print_lines(to, found.report().splitlines())
    print_table(to, table)
    print_lines(to, [verdict(beside)])


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
    return f"not equal after {steps}: {those}; the largest difference is {beside.largest_difference:.3g}"


def side_by_side_dict(found: Plan, beside: SideBySide) -> dict[str, Any]:
    """All figures, for JSON: memory in bytes, time in seconds, increases of the time as fractions."""
    return {
        "status": found.status,
        "budget": found.budget,
        "nodes": len(found.graph.nodes),
        "recomputations": found.recomputations,
        "predicted_peak": found.predicted_peak,
        "predicted_storage_peak": found.predicted_storage_peak,
        "predicted_increase": found.predicted_increase,
        "bound": found.bound,
        **beside.as_dict(),
    }


def _percent(increase: float | None) -> str:
    return "-" if increase is None else f"{100 * increase:+.1f} %"


def _cells(side: Measured, allocator: int | None, storages: int | None) -> list[str]:
    amounts = (side.allocator_peak, allocator, side.storage_peak, storages)
    return [*("-" if each is None else memory_text(each, "byte") for each in amounts), f"{1000 * side.median:,.2f}"]
