"""What a reader of one format is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moccasin_mzn.graphs.graph import ComputationGraph


@dataclass(frozen=True)
class Reader:
    """How a format is told from all others, and read.

    `matches` looks at as little as it needs, and never at the file's name. An `InputError` from `parse` is without that
    name, which `read_graph` adds.
    """

    looks: str
    """What people are told that files look like; of a dialect of JSON, what the objects under "nodes" have."""
    matches: Callable[[Any], bool]
    """Of a file's text or, if `is_json`, of the document in it."""
    parse: Callable[[Any], ComputationGraph]
    is_json: bool = False
