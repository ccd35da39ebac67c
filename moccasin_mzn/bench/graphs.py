"""The graphs of an experiment: found or generated, with a digest of what they are, packed for other machines."""

from __future__ import annotations

import hashlib
import json
import shlex
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from moccasin_mzn.bench.experiment import Experiment, GraphSource
from moccasin_mzn.errors import InputError
from moccasin_mzn.files import load_text, parse_json
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.formats.node_link import graph_text, parse
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.arena import check_buffers
from moccasin_mzn.problem.files.buffers import parse_buffers
from moccasin_mzn.problem.instance import Instance

Generate = Callable[[Sequence[str]], ComputationGraph]
"""Makes the graph of the words after `moccasin_mzn generate`; raises `InputError`."""


@dataclass(frozen=True, eq=False)
class BenchGraph:
    """A graph, or buffers, with its place in the experiment."""

    source: GraphSource
    graph: ComputationGraph | None
    """None: buffers."""
    digest: str
    """See `graph_digest`; of buffers, of the file."""
    shell: str
    """What to give `solve` as GRAPH, or `allocate` as FILE, to do it by hand, in bash."""
    packed: bytes
    """Its file, small enough to go along with every run; see `unpacked`."""
    buffers: int | None = None
    """How many there are."""


def graph_digest(graph: ComputationGraph) -> str:
    """A digest of what a solver can see of a graph, ids included; its name, labels and provenance are no part of it."""
    content = [
        graph.nodes, graph.durations, graph.sizes, sorted(graph.edges), graph.input_order(), graph.backward,
        graph.total_fixed_memory, *([] if graph.workspaces is None else [graph.workspaces]),
        *([] if graph.overwritable is None else [["in place", *graph.overwritable]]),
        *([["computed once", *graph.computed_once]] if graph.computed_once else []),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()[:16]


def unpacked(data: bytes) -> str:
    """The text of a packed graph's file."""
    return zlib.decompress(data).decode()


def parsed(text: str) -> ComputationGraph:
    """The graph of that text."""
    return parse(parse_json(text, "graph"))


def instance_within(graph: ComputationGraph, budget: int, most: str) -> Instance:
    """The instance of a run with the input order, of `budget_amount` and `max_computations` as its row has them."""
    counts = int(most) if most.isdecimal() else most
    return replace(Instance.build(graph, 1, max_computations=counts), budget=max(0, budget))


def load_graphs(
    experiment: Experiment, beside: Path, folders: Sequence[Path], generate: Generate, tell: Callable[[str], None]
) -> list[BenchGraph]:
    """Read or make all graphs.

    Args:
        beside: the folder of the experiment's file; paths that are not absolute are looked for there first.
        folders: then in these, in this order.
        tell: told in a line what optional graph is left out.

    Raises:
        InputError: a graph is not at hand and not optional, or is broken, or cannot be generated; or none is left.
    """
    found = []
    for source in experiment.graphs:
        if source.generate is not None:
            try:
                graph = generate(source.generate)
            except InputError as error:
                raise InputError(f"graph {source.label}: {error}") from None
            shell = f"<(python -m moccasin_mzn generate {shlex.join(source.generate)})"
        else:
            path = _find(source, [beside, *folders])
            if path is None:
                tell(f"left out: graph {source.label}: {path_of(source)} is not at hand (see --graphs)")
                continue
            shell = shlex.quote(path_of(source))
            if source.buffers is not None:
                found.append(_read_buffers(source, path, shell))
                continue
            graph = read_graph(path)
        packed = zlib.compress(graph_text(graph).encode())
        found.append(BenchGraph(source, graph, graph_digest(graph), shell, packed))
    if not found:
        raise InputError("no graph of the experiment is at hand; name the folder that has them with --graphs")
    return found


def path_of(source: GraphSource) -> str:
    """The file it comes from, as given; empty if it is generated."""
    return source.path or source.buffers or ""


def _read_buffers(source: GraphSource, path: Path, shell: str) -> BenchGraph:
    text = load_text(path)
    buffers = parse_buffers(text, path)
    check_buffers(buffers, 1)
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return BenchGraph(source, None, digest, shell, zlib.compress(content), len(buffers))


def _find(source: GraphSource, folders: Sequence[Path]) -> Path | None:
    """The first file there is; None without one if the graph is optional, else raises `InputError`."""
    found = next((path for folder in folders if (path := folder / path_of(source)).is_file()), None)
    if found is not None or source.optional:
        return found
    where = ", ".join(map(str, folders)) if not Path(path_of(source)).is_absolute() else "its folder"
    raise InputError(f"graph {source.label}: there is no {path_of(source)} in {where}")
