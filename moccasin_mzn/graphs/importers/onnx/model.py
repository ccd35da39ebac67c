"""An ONNX file to a checked model: read within a bound, local functions inlined, every name defined before it is read.

External data files are never opened: nothing here needs the values of weights, only their dimensions and types.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, missing, shown
from moccasin_mzn.base.files import load_bytes

if TYPE_CHECKING:
    import onnx
    from google.protobuf.message import Message


SIZE_LIMIT = 2**31 - 1
"""Largest file, in bytes: protobuf's own limit."""
VALUES_KEPT = 4096
"""Constants of more elements lose their values on reading: no shape is computed from them."""
_TERM = rb"[A-Za-z ]*(?:\.\.\.[A-Za-z ]*)?"  # one way to match: two adjacent runs of letters take quadratic time
_EQUATION = re.compile(rb"%b(?:,%b)*(?:->%b)?" % (_TERM, _TERM, _TERM))
"""The form of the equations of Einsum."""
_LONGEST_EQUATION = 10_000
"""In characters; there are 52 indices."""
_DEEPEST = 100
_MOST_NODES = 1_000_000
_DEFAULT_DOMAINS = ("", "ai.onnx")


def tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All constants in a graph and in the attributes of its operators, those of their subgraphs included."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _node_tensors(node)


def model_bytes(path: str | PathLike[str]) -> bytes:
    """What is in a file.

    Raises:
        InputError: it cannot be read, is empty or larger than `SIZE_LIMIT`; the message does not name it.
    """
    data = load_bytes(path, SIZE_LIMIT, hint="; larger models keep weights in external files")
    if not data:
        raise InputError("the file is empty")
    return data


def parse_model(data: bytes, *, weights: bool = False, notes: list[str] | None = None) -> onnx.ModelProto:
    """The model in the bytes of a file, with its local functions inlined, and its operators in an order of execution.

    Args:
        data: of the file.
        weights: keep the values of all constants; if not, large ones are dropped, and all those in external files.
        notes: a line is added for what was done to the model that its author may want to know.

    Raises:
        InputError: it is no ONNX model, is written for a newer operator set than the installed `onnx` knows, or is
            inconsistent: a value that is read before it is computed, or computed twice.
    """
    onnx = packages()
    from google.protobuf.message import DecodeError

    try:
        model = onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError, RecursionError):
        raise InputError("not an ONNX model (is the file cut short?)") from None
    if not model.graph.node or not model.opset_import:
        raise InputError("not an ONNX model: it has no operators, or no operator set")
    _check_operator_sets(model)
    _check_text(model)
    if not weights:
        _drop_values(model)
    model = _inlined(model)
    if sort_operators(model.graph) and notes is not None:
        notes.append("operators are out of order in the file, and were sorted")
    _check_names(model.graph, [])
    return model


def packages() -> ModuleType:
    """The module `onnx`.

    Raises:
        InputError: it or onnx-tool is not installed.
    """
    try:
        import onnx
        import onnx_tool  # noqa: F401
    except ImportError:
        raise missing("the packages onnx and onnx-tool", "onnx", "importing ONNX") from None
    return onnx


def is_standard(node: onnx.NodeProto) -> bool:
    """Is it an operator of ONNX itself, not of a custom domain?"""
    return node.domain in _DEFAULT_DOMAINS


def kind_of(node: onnx.NodeProto) -> str:
    """What operator it is, printable; of a custom domain with that in front."""
    text = node.op_type if is_standard(node) else f"{node.domain}.{node.op_type}"
    return "".join(character if character.isprintable() else "_" for character in text)


def operator_sets(model: onnx.ModelProto) -> dict[str, int]:
    """Version by domain; ONNX's own domain is "", version 1 if the file has none."""
    sets = {"" if one.domain in _DEFAULT_DOMAINS else one.domain: one.version for one in model.opset_import}
    return {"": 1, **sets}


def title(node: onnx.NodeProto) -> str:
    """What to call it in a message."""
    return f"{shown(node.op_type)[1:-1]} {shown(node.name or next(iter(node.output), ''))}"


def graph_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs without those that are constants with a name, as old files have them."""
    constant = set(initializer_names(graph))
    return [value for value in graph.input if value.name not in constant]


def _check_operator_sets(model: onnx.ModelProto) -> None:
    onnx = packages()
    known = onnx.defs.onnx_opset_version()
    version = operator_sets(model).get("", 1)
    if not 1 <= version <= known:
        raise InputError(f"operator set {version}; onnx {onnx.__version__}, which is installed, knows 1 to {known}")


def _check_text(message: Message) -> None:
    """Is all text UTF-8? protobuf hands out what is not as bytes.

    Raises:
        InputError: some is not.
    """
    for field, value in message.ListFields() if message.DESCRIPTOR.name != "TensorProto" else ():  # data, much of it
        if field.type == field.TYPE_STRING:
            texts = [value] if isinstance(value, (str, bytes)) else value
            if not all(isinstance(text, str) for text in texts):
                raise InputError(f"{field.name} of a {message.DESCRIPTOR.name} is not UTF-8")
        elif field.type == field.TYPE_MESSAGE:
            for part in [value] if hasattr(value, "ListFields") else value:
                _check_text(part)
    if not isinstance(getattr(message, "name", ""), str):
        raise InputError(f"name of a {message.DESCRIPTOR.name} is not UTF-8")


def _drop_values(model: onnx.ModelProto) -> None:
    """Free the values of large constants, and forget where external ones are, so that nothing ever looks for them."""
    for tensor in tensors(model.graph):
        _drop_value(tensor)
    for function in model.functions:
        for node in function.node:
            for tensor in _node_tensors(node):
                _drop_value(tensor)


def _node_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        yield from (attribute.t, *attribute.tensors, attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
    for graph in subgraphs(node):
        yield from tensors(graph)


def _drop_value(tensor: onnx.TensorProto) -> None:
    elements = 1
    for dim in tensor.dims:
        elements *= dim
    external = tensor.data_location == tensor.EXTERNAL
    if external or elements > VALUES_KEPT:
        for field, _ in tensor.ListFields():
            if field.name.endswith("_data") or field.name == "data_location":
                tensor.ClearField(field.name)


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Calls of local functions replaced by what is in them.

    Raises:
        InputError: they are recursive, or doubling upon doubling makes a small file a huge model.
    """
    if not model.functions:
        return model
    from onnx.inliner import inline_local_functions

    functions = {(one.domain, one.name, one.overload): one for one in model.functions}
    counts: dict[tuple[str, str, str], int] = {}

    def expanded(nodes: list[onnx.NodeProto], depth: int) -> int:
        if depth > _DEEPEST:
            raise InputError(f"local functions call each other over {_DEEPEST} deep, or themselves")
        total = 0
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            waiting.extend(inner for graph in subgraphs(node) for inner in graph.node)
            key = (node.domain, node.op_type, node.overload)
            if key in functions and key not in counts:
                counts[key] = expanded(functions[key].node, depth + 1)
            total += counts.get(key, 1)
        return total

    if expanded(model.graph.node, 0) > _MOST_NODES:
        raise InputError(f"over {_MOST_NODES} operators after inlining local functions")
    try:
        return inline_local_functions(model)
    except Exception as error:  # the bindings raise several types
        raise InputError(f"local functions: {one_line(error)}") from None


def one_line(error: Exception) -> str:
    """The message of another package's error on one line; of a long one the ends, as what is wrong comes last."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:48]} ... {text[-147:]}"


def _check_names(graph: onnx.GraphProto, outer: list[set[str]]) -> None:
    """Is everything defined once, and before it is read?

    Raises:
        InputError: it is not; the message names operator and value.
    """
    known: set[str] = set()
    for what, names in (("input", [value.name for value in graph.input]), ("initializer", initializer_names(graph))):
        if len(set(names)) < len(names):
            raise InputError(f"{what} {shown(_first_twice(names))} is given twice")
        known.update(names)
    scopes = [*outer, known]
    computed: set[str] = set()
    for node in graph.node:
        for name in node.input:
            if name and not any(name in scope for scope in scopes):
                raise InputError(f"{title(node)} reads {shown(name)}, which nothing before it puts out")
        _check_equation(node)
        for inner in subgraphs(node):
            _check_names(inner, scopes)
        for name in node.output:
            if name and (name in computed or name in known):
                raise InputError(f"{title(node)} puts out {shown(name)}, a name that is taken")
            if name:
                computed.add(name)
                known.add(name)
    for value in graph.output:
        if not any(value.name in scope for scope in scopes):
            raise InputError(f"output {shown(value.name)} is never computed")


def _check_equation(node: onnx.NodeProto) -> None:
    """Refuse what is no equation: shape inference never comes back from some of them."""
    for attribute in node.attribute:
        if attribute.name != "equation":
            continue
        if len(attribute.s) > _LONGEST_EQUATION:
            raise InputError(f"{title(node)}: an equation of over {_LONGEST_EQUATION} characters")
        if not _EQUATION.fullmatch(attribute.s):
            raise InputError(f"{title(node)}: {shown(attribute.s)} is no equation")


def _first_twice(names: list[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            break
        seen.add(name)
    return name


def sort_operators(graph: onnx.GraphProto) -> bool:
    """Put operators that read what a later one outputs behind that, as some exporters write them before it, and leave
    all others where they are.

    Subgraphs are sorted as well; operators in a circle stay as they are.

    Returns:
        Whether something was moved.
    """
    moved = [sort_operators(inner) for node in graph.node for inner in subgraphs(node)]
    makers = {name: at for at, node in enumerate(graph.node) for name in node.output if name}
    needs = [{makers[name] for name in reads(node) if name in makers} for node in graph.node]
    if all(max(need, default=-1) < at for at, need in enumerate(needs)):
        return any(moved)
    import networkx

    edges = networkx.DiGraph((maker, at) for at, need in enumerate(needs) for maker in need)
    edges.add_nodes_from(range(len(needs)))
    try:
        order = list(networkx.lexicographical_topological_sort(edges))
    except networkx.NetworkXUnfeasible:
        return any(moved)
    nodes = [copy.deepcopy(graph.node[at]) for at in order]
    del graph.node[:]
    graph.node.extend(nodes)
    return True


# --- Names of values in an ONNX graph: what reads which, and other names for them -----------------------------


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in its attributes: branches of If, bodies of Loop and Scan."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def reads(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names of the values it reads, those that its subgraphs take from around them included, each once."""
    names = dict.fromkeys(name for name in node.input if name)
    for graph in subgraphs(node):
        names.update(dict.fromkeys(_taken_from_outside(graph)))
    return tuple(names)


def _taken_from_outside(graph: onnx.GraphProto) -> list[str]:
    defined = {value.name for value in graph.input} | set(initializer_names(graph))
    taken: list[str] = []
    for node in graph.node:
        taken.extend(name for name in reads(node) if name not in defined)
        defined.update(node.output)
    taken.extend(value.name for value in graph.output if value.name not in defined)
    return taken


def initializer_names(graph: onnx.GraphProto) -> list[str]:
    """Names of the constants stored in a graph, dense and sparse."""
    return [one.name for one in graph.initializer] + [one.values.name for one in graph.sparse_initializer]


def all_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Names of all values, those in subgraphs included."""
    yield from (value.name for value in (*graph.input, *graph.output))
    yield from initializer_names(graph)
    for node in graph.node:
        yield from (*node.input, *node.output)
        for inner in subgraphs(node):
            yield from all_names(inner)


def fresh(name: str, taken: set[str]) -> str:
    """The name, with something behind it if it is taken, which it is from now on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def rename_reads(node: onnx.NodeProto, renamed: Mapping[str, str]) -> None:
    """Let an operator, and what is in its subgraphs, read values by other names."""
    if not renamed:
        return
    node.input[:] = [renamed.get(name, name) for name in node.input]
    for graph in subgraphs(node):
        hidden = {value.name for value in graph.input} | set(initializer_names(graph))
        seen = {name: other for name, other in renamed.items() if name not in hidden}
        for inner in graph.node:
            rename_reads(inner, seen)
            seen = {name: other for name, other in seen.items() if name not in inner.output}
        for value in graph.output:
            value.name = seen.get(value.name, value.name)
