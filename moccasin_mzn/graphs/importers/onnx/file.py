"""ONNX files to computation graphs: a node for each operator that depends on an input of the network.

See `network` for what is a node and what is a constant, and `costs` for durations.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from os import PathLike
from pathlib import Path

from moccasin_mzn.base.environment import own_environment
from moccasin_mzn.base.errors import InputError, located
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.onnx.model import model_bytes, packages
from moccasin_mzn.graphs.importers.onnx.network import OnnxNetwork, network_of
from moccasin_mzn.graphs.importers.onnx.preparation import Fold, Optimize, check_numbers, optimized
from moccasin_mzn.graphs.importers.program import Missing, Operation, Program, program_graph
from moccasin_mzn.graphs.operators import operator_json, operator_of


@dataclass(frozen=True)
class OnnxTrace:
    """A graph, and what its nodes are in the file that it was imported from."""

    graph: ComputationGraph
    operators: tuple[int | None, ...]
    """For each node the position of its operator in the model's graph, local functions inlined; None for a further
    output, and for the last node that keeps several results. What no node stands for is a constant, a view of what a
    node outputs, or of no use."""
    of_values: ComputationGraph
    """`graph` without what operators take for themselves."""
    network: OnnxNetwork
    """What was found in the file."""


@dataclass(frozen=True)
class OnnxImport:
    """How an ONNX model becomes a graph."""

    dims: Mapping[str, int] = field(default_factory=dict)
    """Numbers for open dimensions, by name ("batch") or by input and axis ("x[0]")."""
    missing: Missing = field(default_factory=Missing)
    """For operators whose outputs' size depends on the values of an input (NonZero), or whose cost is unknown; its
    sizes are those of values."""
    merge_views: bool = False
    """Reshape, Flatten, Squeeze, Unsqueeze, Identity and Dropout share the memory of what they read, except where
    another operator computes their shape. If not, they are nodes as all others: ONNX's operators return new values."""
    keep_results: bool = True
    """All results are kept to the end, of several too."""
    workspaces: bool = False
    """Nodes have those that ONNX Runtime takes for them, see `onnx_workspaces`."""
    fold: Fold = Fold.SMALL
    """What is computed of constants alone and counts as a constant, as `deploy onnx` makes it one."""
    optimize: Optimize = Optimize.NONE
    """Import what ONNX Runtime makes of the file, at this level."""
    isolated: bool = True
    """Analyse the file in a process of its own; see `network_apart`. If not, it is quicker by the start of that
    process, but a file made to harm can crash this one."""

    def prepared(self, path: str | PathLike[str]) -> tuple[bytes, OnnxImport]:
        """Return the bytes of a file as they are imported, and how, with the dimensions that are open still.

        Raises:
            InputError: the file cannot be read, or ONNX Runtime cannot load it.
        """
        data, dims = optimized(model_bytes(path), self.optimize, Path(path).parent, self.dims)
        return data, replace(self, dims=dims)


AS_IT_IS = OnnxImport()
"""A file without open dimensions and operators of unknown cost, as it is."""


def import_onnx(path: str | PathLike[str], how: OnnxImport = AS_IT_IS) -> ComputationGraph:
    """The graph of an ONNX file.

    Args:
        path: at most 2 GiB; external files of weights are neither needed nor opened.

    Returns:
        Sizes in bytes, durations in multiply-adds; fixed memory "parameters" and "inputs"; ids are the operators'
        names, or where they have none that of their first output; labels are the operators.

    Raises:
        InputError: the file cannot be read or is no consistent ONNX model; an open dimension without a number; what
            `program_graph` raises; packages are missing.
    """
    packages()
    with located(path):
        data, how = how.prepared(path)
        return trace_onnx(data, Path(path).stem, how).graph


def trace_onnx(data: bytes, name: str, how: OnnxImport = AS_IT_IS) -> OnnxTrace:
    """As `import_onnx`, of the bytes of a file, with what each node of the graph is in there.

    Raises:
        InputError: see `import_onnx`; the message does not name the file.
    """
    packages()
    find = network_apart if how.isolated else network_of
    network = find(data, name, how.dims, how.missing.sizes, how.fold)
    missing = replace(how.missing, sizes={})
    graph, of_values = (
        program_graph(
            network.program, missing, merge_views=how.merge_views, keep_results=how.keep_results,
            workspaces=taken, attributes=network.attributes,
        ) for taken in (how.workspaces, False)
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


# --- An ONNX file analysed in a process of its own, with limits of time and memory ----------------------------

# The shape inference of `onnx` is native code that takes its input for well-meant: an axis of 2**63 - 1 crashes it, a
# number of outputs of 2**31 fills the memory, and some equations of Einsum keep it busy for ever. So a process that
# reads files of strangers asks another one, `python -m moccasin_mzn.graphs.importers.onnx.file`, with the request on
# its standard input: one line of JSON, then the file.


SECONDS = 300
"""A network of 100,000 operators takes half a minute."""
MEMORY, MEMORY_PER_BYTE = 4 * 2**30, 8
"""Bytes of address space, and how many more for each byte of the file."""


def network_apart(
    data: bytes,
    name: str,
    dims: Mapping[str, int],
    sizes: Mapping[str, int] | None = None,
    fold: Fold = Fold.SMALL,
    seconds: float = SECONDS,
) -> OnnxNetwork:
    """As `network.network_of`, but in another process.

    Raises:
        InputError: what that raises; and if the other process crashes, or takes too much time or memory.
    """
    check_numbers(dims)
    memory = MEMORY + MEMORY_PER_BYTE * len(data)
    request = json.dumps({
        "name": name, "dims": dict(dims), "sizes": dict(sizes or {}), "fold": fold, "memory": memory,
        "seconds": ceil(seconds),
    })  # fmt: skip
    command = [sys.executable, "-P", "-m", "moccasin_mzn.graphs.importers.onnx.file"]
    try:
        done = subprocess.run(
            command,
            input=request.encode() + b"\n" + data,
            capture_output=True,
            timeout=seconds,
            check=False,
            env=own_environment(),
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"its shapes are not inferred in {seconds} s") from None
    if done.returncode:
        raise InputError(_failure(done))
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise InputError(answer["error"])
    return _network(answer)


def _failure(done: subprocess.CompletedProcess[bytes]) -> str:
    version = packages().__version__
    lines = done.stderr.decode(errors="replace").split("\n")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        if name == "SIGXCPU":  # no such signal on Windows
            return "its analysis takes too much time"
        return f"the shape inference of onnx {version} crashes on it ({name})"
    if any(line.startswith("MemoryError") for line in lines):
        return "its analysis takes too much memory"
    last = next((line.strip() for line in reversed(lines) if line.strip()), f"status {done.returncode}")
    return f"its analysis with onnx {version} fails: {last}"


def _answer(network: OnnxNetwork) -> JsonObject:
    operations = network.program.operations
    bare = replace(network.program, operations=tuple(replace(each, operator=None) for each in operations))
    operators = [each.operator and operator_json(each.operator, each.inputs) for each in operations]
    return {**asdict(replace(network, program=bare)), "operators": operators}


def _operation(about: JsonObject, operator: JsonObject | None) -> Operation:
    known = {names: tuple(about[names]) for names in ("inputs", "in_place")}
    index = {name: at for at, name in enumerate(known["inputs"])}
    return Operation(**{**about, **known, "operator": operator and operator_of(operator, index)})


def _network(answer: JsonObject) -> OnnxNetwork:
    program = answer.pop("program")
    operations = tuple(map(_operation, program.pop("operations"), answer.pop("operators")))
    results = tuple(program.pop("results"))
    positions = tuple(answer.pop("positions"))
    branches, folded = tuple(answer.pop("branches")), tuple(answer.pop("folded"))
    return OnnxNetwork(Program(operations, results, **program), positions, **answer, branches=branches, folded=folded)


def main() -> None:
    """Answer the request on standard input with a network, or an error, as JSON on standard output."""
    request = json.loads(sys.stdin.buffer.readline())
    _limit("RLIMIT_AS", request["memory"])
    _limit("RLIMIT_CPU", request["seconds"])  # the process that asks may be killed and never end this one
    output, sys.stdout = sys.stdout, sys.stderr  # nothing else may write there
    try:
        network = network_of(
            sys.stdin.buffer.read(), request["name"], request["dims"], request["sizes"], Fold(request["fold"])
        )
        answer = _answer(network)
    except InputError as error:
        answer = {"error": str(error)}
    json.dump(answer, output)
    output.flush()


def _limit(name: str, amount: int) -> None:
    """Set a limit of this process, by its name in `resource`; one that is already lower stays."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (min([amount, *(limit for limit in (soft, hard) if limit >= 0)]), hard))


if __name__ == "__main__":
    main()
