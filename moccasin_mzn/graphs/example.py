"""The graph to begin with: it travels with the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from moccasin_mzn.graphs.formats import kinds_text

FILE, BUDGET = "unet_training.json", "80%"


def example_graph() -> Path:
    """Where it is: inside an installed package, or beside the package in a checkout."""
    package = Path(str(resources.files("moccasin_mzn")))
    installed = package / "data" / FILE
    return installed if installed.is_file() else package.parent / "data" / FILE


def example_note(budget: str | None) -> str:
    """What to tell people who have named no graph.

    Args:
        budget: as given; None: devices have their own.
    """
    within = "" if budget is None else f", within a budget of {budget}"
    return (
        f"no GRAPH is given: this solves the example that comes with the package, {example_graph()}{within}\n"
        "your own: python -m moccasin_mzn solve my.json --budget 0.8\n"
        f"a graph is a file of {kinds_text()}; python -m moccasin_mzn import --help tells how to make one of an "
        "ONNX or PyTorch model"
    )
