"""Which MIP solver works here, as a process tells of itself: the libraries that its own Python finds."""

from __future__ import annotations

from importlib.metadata import version


def loaded_version(engine: str) -> str:
    """Name and version, such as "HiGHS 1.15.1"; `engine` is a value of `--engine`."""
    if engine == "highs":
        return f"HiGHS {version('highspy')}"
    return f"SCIP of OR-Tools {version('ortools')}"
