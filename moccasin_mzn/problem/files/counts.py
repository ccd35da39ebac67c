"""How often nodes may be computed, as people say it: a number, "auto", or a file that says it for each."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

from moccasin_mzn.errors import InputError, located, shown
from moccasin_mzn.files import load_json
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.words import count_text

USUAL_COUNT = 2
"""For nodes that a file does not name."""


def parse_count(text: str) -> int | str | Path:
    """Read how often a node may be computed: a positive integer, "auto", or a file that says it for each node.

    Raises:
        InputError: it is none of them.
    """
    if text == "auto":
        return text
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text) >= 1:
        return int(text)
    if Path(text).is_file():
        return Path(text)
    raise InputError(f"max computations {shown(text)}: expected a positive integer, auto or a file")


def counts_of(given: Any, graph: ComputationGraph) -> Any:
    """C_v as `Instance.build` takes it, of that, a text or a file.

    Raises:
        InputError: see `parse_count` and `read_counts`.
    """
    most = parse_count(given) if isinstance(given, str) else given
    return read_counts(most, graph) if isinstance(most, PathLike) else most


def read_counts(path: str | PathLike[str], graph: ComputationGraph) -> tuple[int, ...]:
    """Read C_v for each node of `graph`: a JSON list in the order of its nodes, or an object from ids to counts. ::

        {"conv1": 1, "conv2": 4}

    Nodes that an object does not name may be computed twice. An id may be written as text ("3" for 3).

    Raises:
        InputError: the file cannot be read or is broken, a node is not in the graph, or a count is no integer.
    """
    document = load_json(path)
    with located(path):
        if isinstance(document, list):
            if len(document) != len(graph.nodes):
                raise InputError(f"{count_text(len(document), 'count')} for {count_text(len(graph.nodes), 'node')}")
            counts = document
        elif isinstance(document, dict):
            counts = [USUAL_COUNT] * len(graph.nodes)
            for node, count in document.items():
                counts[graph.position_of(node)] = count
        else:
            raise InputError(f"expected a list of counts or an object of ids and counts, got {shown(document)}")
        for node, count in zip(graph.nodes, counts, strict=True):
            if type(count) is not int or count < 1:
                raise InputError(f"node {node}: count {shown(count)} is not a positive integer")
    return tuple(counts)
