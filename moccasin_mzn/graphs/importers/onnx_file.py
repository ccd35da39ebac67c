"""ONNX files to computation graphs: a node for each operator that depends on an input of the network.

See `onnx_network` for what is a node and what is a constant, and `onnx_costs` for durations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from moccasin_mzn.errors import located
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.onnx_folding import Fold
from moccasin_mzn.graphs.importers.onnx_isolated import network_apart
from moccasin_mzn.graphs.importers.onnx_model import model_bytes, packages
from moccasin_mzn.graphs.importers.onnx_network import Network, network_of
from moccasin_mzn.graphs.importers.onnx_optimizing import Optimize, optimized
from moccasin_mzn.graphs.importers.program import Missing, program_graph


@dataclass(frozen=True)
class OnnxTrace:
    """A graph, and what its nodes are in the file that it was imported from."""

    graph: ComputationGraph
    operators: tuple[int | None, ...]
    """For each node the position of its operator in the model's graph, local functions inlined; None for the last node
    that keeps several results. What no node stands for is a constant, a view of what a node puts out, or of no use."""
    of_values: ComputationGraph
    """`graph` without what operators take for themselves."""
    network: Network
    """What was found in the file."""


def import_onnx(
    path: str | PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    missing: Missing | None = None,
    merge_views: bool = False,
    keep_results: bool = True,
    workspaces: bool = False,
    fold: Fold = Fold.SMALL,
    optimize: Optimize = Optimize.NONE,
    isolated: bool = True,
) -> ComputationGraph:
    """The graph of an ONNX file.

    Args:
        path: at most 2 GiB; external files of weights are neither needed nor opened.
        dims: numbers for open dimensions, by name ("batch") or by input and axis ("x[0]").
        missing: for operators whose outputs' size depends on the values of an input (NonZero), or whose cost is
            unknown; its sizes are those of values.
        merge_views: Reshape, Flatten, Squeeze, Unsqueeze, Identity and Dropout share the memory of what they read,
            except where another operator computes their shape. If not, they are nodes as all others: ONNX's operators
            put out new values.
        keep_results: of several results, keep all to the end.
        workspaces: nodes have those that ONNX Runtime takes for them, see `onnx_workspaces`.
        fold: what is computed of constants alone and counts as a constant, as `deploy onnx` makes it one; the rest are
            nodes.
        optimize: import what ONNX Runtime makes of the file, at this level.
        isolated: analyse the file in a process of its own; see `onnx_isolated`. If not, it is quicker by the start of
            that process, but a file made to harm can crash this one.

    Returns:
        Sizes in bytes, durations in multiply-adds; fixed memory "parameters" and "inputs"; ids are the operators'
        names, or where they have none that of their first output; labels are the operators.

    Raises:
        InputError: the file cannot be read or is no consistent ONNX model; an open dimension without a number; what
            `program_graph` raises; packages are missing.
    """
    packages()
    with located(path):
        data, dims = optimized(model_bytes(path), optimize, Path(path).parent, dims or {})
        return trace_onnx(
            data, Path(path).stem, dims=dims, missing=missing, merge_views=merge_views,
            keep_results=keep_results, workspaces=workspaces, fold=fold, isolated=isolated,
        ).graph  # fmt: skip


def trace_onnx(
    data: bytes, name: str, *, dims: Mapping[str, int] | None = None, missing: Missing | None = None,
    merge_views: bool = False, keep_results: bool = True, workspaces: bool = False, fold: Fold = Fold.SMALL,
    isolated: bool = True,
) -> OnnxTrace:  # fmt: skip
    """As `import_onnx`, of the bytes of a file, with what each node of the graph is in there.

    Raises:
        InputError: see `import_onnx`; the message does not name the file.
    """
    packages()
    missing = missing or Missing()
    network = (network_apart if isolated else network_of)(data, name, dims or {}, missing.sizes, fold)
    missing = replace(missing, sizes={})
    graph, of_values = (
        program_graph(
            network.program, missing, merge_views=merge_views, keep_results=keep_results,
            workspaces=taken, attributes=network.attributes,
        ) for taken in (workspaces, False)
    )  # fmt: skip
    names = (operation.name for operation in network.program.operations)
    positions = dict(zip(names, network.positions, strict=True))
    return OnnxTrace(graph, tuple(positions.get(str(node)) for node in graph.nodes), of_values, network)


def versions() -> dict[str, str]:
    """Versions of the packages that an import depends on.

    Raises:
        InputError: one is missing.
    """
    import importlib.metadata

    packages()
    return {name: importlib.metadata.version(name) for name in ("onnx", "onnx-tool")}
