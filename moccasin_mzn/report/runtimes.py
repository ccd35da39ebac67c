"""Output about plans that run: a network trained by a plan and without one, and a deployed ONNX model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from moccasin_mzn.extensions.platforms import SLOW
from moccasin_mzn.files import JsonObject
from moccasin_mzn.formatting import count_text, memory_text
from moccasin_mzn.pytorch.gradients import ACCUMULATED
from moccasin_mzn.report.tables import Lines, console, plain_table, print_lines, print_table
from moccasin_mzn.search.result import percent_over

if TYPE_CHECKING:
    from moccasin_mzn.api.driving import Progress
    from moccasin_mzn.deploy.onnx_deployment import Deployment
    from moccasin_mzn.deploy.onnx_session import Comparison
    from moccasin_mzn.pytorch.planning import Plan
    from moccasin_mzn.pytorch.side_by_side import Measured, SideBySide
    from moccasin_mzn.search.result import Result


_HEADINGS = {
    "allocator_peak": "allocator", "storage_peak": "storages", "first_peak": "first step", "slow_peak": "host memory"
}  # fmt: skip
_UNEQUAL_SHOWN = 5


class SearchLines(Lines):
    """Prints a line for each plan and each bound that is better, at most a few per second."""

    plan = ""
    """What the best plan does."""

    def __call__(self, progress: Progress) -> None:
        """Print the line, or delay it if one was printed just before."""
        text, nodes = "no schedule yet", progress.nodes
        if progress.peaks is not None:
            self.plan = f"{memory_text(tuple(progress.peaks.values())[SLOW], 'byte')} in host memory"
        elif nodes is not None:
            self.plan = count_text(len(nodes) - len(set(nodes)), "recomputation")
        if progress.gap is not None:
            text = f"a plan with {self.plan}, gap {100 * progress.gap:.3f} %"
        elif progress.peak is not None:
            text += f", the least peak is {memory_text(progress.peak, 'byte')}"
        self._print(progress.seconds, text, at_once=False)


def print_side_by_side(found: Plan, measured: SideBySide, out: TextIO) -> None:
    """Print a table of both runs with the predicted figures, and whether all results are equal."""
    predicted = _predicted(found)
    amounts = [heading for what in predicted for heading in (_HEADINGS[what], "predicted")]
    table = plain_table(None, ("", *amounts, "ms", "over eager", "predicted"), left=("",))
    if measured.eager is not None:
        table.add_row("eager", *_cells(measured.eager, dict.fromkeys(predicted)), "-", "-")
    increases = (_percent(increase) for increase in (measured.increase, found.predicted_increase))
    table.add_row("plan", *_cells(measured.plan, predicted), *increases)
    to = console(out)
    print_lines(to, found.report().splitlines())
    print_table(to, table)
    print_lines(to, [equality_text(measured)])


def _predicted(found: Plan) -> dict[str, int | None]:
    """Return the predicted figures that are shown, by the name of the measured ones."""
    predicted: dict[str, int | None] = {
        "allocator_peak": found.predicted_peak,
        "storage_peak": found.predicted_storage_peak,
    }
    if found.traced.gradients == ACCUMULATED:
        predicted["first_peak"] = found.first_peak
    if found.copies:
        predicted["slow_peak"] = found.predicted_slow_peak
    return predicted


def equality_text(measured: SideBySide) -> str:
    """Return a sentence that states whether all results are equal."""
    steps = count_text(measured.steps, "step")
    if measured.equal is None:
        return f"{steps} with the plan; without it there is too little memory, so that nothing is compared"
    if measured.equal:
        return f"equal after {steps}, bit for bit: outputs, gradients, parameters, buffers, the random state"
    those = ", ".join(measured.unequal[:_UNEQUAL_SHOWN])
    more = len(measured.unequal) - _UNEQUAL_SHOWN
    those += f" and {more} more" if more > 0 else ""
    hint = f" ({measured.hint})" if measured.hint else ""
    return f"not equal after {steps}: {those}; the largest difference is {measured.largest_difference:.3g}{hint}"


def side_by_side_dict(found: Plan, measured: SideBySide) -> JsonObject:
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
        **measured.as_dict(),
    }


def _percent(increase: float | None) -> str:
    return "-" if increase is None else f"{100 * increase:+.1f} %"


def _cells(side: Measured, predicted: Mapping[str, int | None]) -> list[str]:
    amounts = [amount for what, forecast in predicted.items() for amount in (getattr(side, what), forecast)]
    return [*("-" if each is None else memory_text(each, "byte") for each in amounts), f"{1000 * side.median:,.2f}"]


# --- A deployed ONNX model, which follows a schedule ----------------------------------------------------------


def schedule_line(made: Result) -> str:
    """Return status, reason, duration and bound of the schedule that was searched for, in a line."""
    over = percent_over(made.bound, made.instance.baseline.duration)
    return f"{made.status}: {made.reason}; duration +{made.tdi_percent:.3f} %, bound +{over:.3f} %"


def deployment_line(deployed: Deployment) -> str:
    """Return counts and the planned peak, in a line."""
    recomputations = deployed.computations - deployed.nodes
    peaks = [memory_text(peak, "byte") for peak in (deployed.planned_peak, deployed.former_peak)]
    return (
        f"{count_text(deployed.nodes, 'operator')}, {count_text(recomputations, 'recomputation')}, "
        f"planned peak {peaks[0]} instead of {peaks[1]}"
    )


def comparison_lines(deployed: Deployment, found: Comparison) -> list[str]:
    """Return the results of running both models, in lines."""
    equal = {
        True: "outputs are equal, bit for bit",
        False: "outputs are not equal",
        None: "outputs are not equal, but the model draws numbers, which are others in each file",
    }
    names = ("the new model", "the model in the order of its file", "the model in the order of ONNX Runtime")
    peaks = (found.peak, found.former_peak, found.usual_peak)
    lines = [equal[found.equal], f"order: {_order(found)}"]
    if found.peak > deployed.planned_values:
        over = percent_over(found.peak, deployed.planned_values)
        planned = memory_text(deployed.planned_values, "byte")
        lines.append(f"the measured peak is above the planned one, {planned} of values: by {over:.1f} %")
    return lines + [
        f"measured peak of {name}: {memory_text(peak, 'byte')}" for name, peak in zip(names, peaks, strict=True)
    ]


def _order(found: Comparison) -> str:
    if found.late is None:
        return "that of the schedule"
    return f"not that of the schedule: ONNX Runtime moves {found.late}, or takes it apart"


def deployment_dict(deployed: Deployment, made: Result | None, found: Comparison | None) -> JsonObject:
    """Return the same for JSON, without what was not searched for or not measured."""
    document = {
        "operators": deployed.nodes,
        "computations": deployed.computations,
        "planned_peak": deployed.planned_peak,
        "planned_values": deployed.planned_values,
        "former_peak": deployed.former_peak,
        "notes": [*deployed.notes],
    }
    if made is not None:
        document |= {name: getattr(made, name) for name in ("status", "reason", "duration", "bound", "tdi_percent")}
    if found is None:
        return document
    return document | {
        "equal": found.equal,
        "in_order": found.late is None,
        "within_plan": found.peak <= deployed.planned_values,
        "measured_peak": found.peak,
        "measured_former_peak": found.former_peak,
        "measured_usual_peak": found.usual_peak,
    }
