"""How a graph was made, as a value for its attribute `made_by`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

ATTRIBUTE = "made_by"


def made_by(command: str, versions: Mapping[str, str] | None = None, **facts: Any) -> dict[str, Any]:
    """What made a graph.

    Args:
        command: the command line that makes the same graph again.
        versions: of the other packages that had a part in it.
        facts: JSON values more, such as the parameters in full, or the source file and its digest.

    Returns:
        `{"command": ..., "versions": {"moccasin_mzn": ..., ...}, **facts}`. Units are fields of the graph.
    """
    return {"command": command, "versions": {"moccasin_mzn": version("moccasin_mzn"), **(versions or {})}, **facts}
