"""What is told of a model that follows a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moccasin_mzn.formatting import count_text, memory_text
from moccasin_mzn.search.result import percent_over

if TYPE_CHECKING:
    from moccasin_mzn.deploy.onnx_deployment import Deployment
    from moccasin_mzn.deploy.onnx_session import Comparison
    from moccasin_mzn.search.result import Result


def schedule_line(made: Result) -> str:
    """How good the schedule is that was searched for."""
    over = percent_over(made.bound, made.instance.baseline.duration)
    return f"{made.status}: {made.reason}; duration +{made.tdi_percent:.3f} %, bound +{over:.3f} %"


def deployment_line(deployed: Deployment) -> str:
    """Counts and the planned peak, in a line."""
    again = deployed.computations - deployed.nodes
    peaks = [memory_text(peak, "byte") for peak in (deployed.planned_peak, deployed.former_peak)]
    return (
        f"{count_text(deployed.nodes, 'operator')}, {count_text(again, 'computation')} done again, "
        f"planned peak {peaks[0]} instead of {peaks[1]}"
    )


def comparison_lines(deployed: Deployment, found: Comparison) -> list[str]:
    """What a run of both models came to."""
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


def deployment_dict(deployed: Deployment, made: Result | None, found: Comparison | None) -> dict[str, Any]:
    """The same for programs; what was not searched for, or not measured, is left out."""
    told = {
        "operators": deployed.nodes,
        "computations": deployed.computations,
        "planned_peak": deployed.planned_peak,
        "planned_values": deployed.planned_values,
        "former_peak": deployed.former_peak,
        "notes": [*deployed.notes],
    }
    if made is not None:
        told |= {name: getattr(made, name) for name in ("status", "reason", "duration", "bound", "tdi_percent")}
    if found is None:
        return told
    return told | {
        "equal": found.equal,
        "in_order": found.late is None,
        "within_plan": found.peak <= deployed.planned_values,
        "measured_peak": found.peak,
        "measured_former_peak": found.former_peak,
        "measured_usual_peak": found.usual_peak,
    }
