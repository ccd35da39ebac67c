"""How a graph was made, as a value for its attribute `made_by`; and the example that comes with the package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from moccasin_mzn.base.commands import command
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.graphs.formats import kinds_text

ATTRIBUTE = "made_by"


def made_by(made: str, versions: Mapping[str, str] | None = None, **facts: object) -> JsonObject:
    """What made a graph.

    Args:
        made: the command line that makes the same graph again.
        versions: of the other packages that had a part in it.
        facts: JSON values more, such as the parameters in full, or the source file and its digest.

    Returns:
        `{"command": ..., "versions": {"moccasin_mzn": ..., ...}, **facts}`. Units are fields of the graph.
    """
    return {"command": made, "versions": {"moccasin_mzn": version("moccasin_mzn"), **(versions or {})}, **facts}


# --- The graph to begin with: it travels with the package -----------------------------------------------------


FILE, BUDGET = "unet_training.json", "80%"


def example_graph() -> Path:
    """Where it is: inside an installed package, or next to the package in a checkout."""
    package = Path(str(resources.files("moccasin_mzn")))
    installed = package / "data" / FILE
    return installed if installed.is_file() else package.parent / "data" / FILE


def example_note(budget: str | None) -> str:
    """The message where no graph is named.

    Args:
        budget: as given; None: devices have their own.
    """
    within = "" if budget is None else f", within a budget of {budget}"
    return (
        f"no GRAPH is given: this solves the example that comes with the package, {example_graph()}{within}\n"
        f"your own: {command('solve', 'my.json', '--budget', '0.8')}\n"
        f"a graph is a file of {kinds_text()}; {command('import', '--help')} shows how to make one of an "
        "ONNX, TFLite or PyTorch model"
    )
