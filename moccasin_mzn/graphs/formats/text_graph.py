"""What GraphML and DOT share: graphs whose ids and attributes are all text, and computation graphs made of them.

Names of attributes that hold the fields of a `ComputationGraph`:

    of nodes: duration, size, workspace (0 where it is missing), label, backward (true or false); and as JSON:
    device_durations (by name of the device), in_place (a list of ids; none where it is missing), operator, part,
    output_of (an id), adjacent (a list of lists of ids; none where it is missing)
    of the graph: name, duration_unit, size_unit; and as JSON: order, computed_once (lists of ids), fixed_memory and
    attributes

Other attributes of the graph are kept among `ComputationGraph.attributes`; other ones of nodes and edges are not kept.
An id that is written as a 64-bit integer is one. Where a text is not that exactly (the string "1", a name with a
tabulator), the same name with `_json` holds it as JSON: id_json, label_json, name_json, ...
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from os import PathLike

from moccasin_mzn.base.errors import InputError, located, shown, some_of
from moccasin_mzn.base.files import Json, JsonObject, load_text, parse_json, replace_file
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.graphs.adjacency import adjacent_in
from moccasin_mzn.graphs.checks import by_device, output_of_in
from moccasin_mzn.graphs.formats.reader import attributes_json, overwritable, resolve_list
from moccasin_mzn.graphs.graph import TOTAL_LIMIT, ComputationGraph, NodeId
from moccasin_mzn.graphs.operators import operators_in, parts_in

TEXT_LIMIT = 2**25
"""Most characters of a GraphML file: 50,000 nodes with 400,000 edges have 29 million, and the worst texts of this
length take 4 GB of memory while they are read."""

_TEXT_FIELDS = (("name", ""), ("duration_unit", "unit"), ("size_unit", "unit"))
_JSON_FIELDS = ("order", "fixed_memory", "computed_once", "attributes")
_OWN_KEYS = {*_JSON_FIELDS, *(key + suffix for key, _ in _TEXT_FIELDS for suffix in ("", "_json"))}

_STRUCTURES: tuple[str, ...] = ("operator", "part", "output_of", "adjacent")

_INTEGER_ID = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_NUMBER_CHARACTERS = 400
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Amounts:
    """Where a file has durations and sizes, and what to take for a node without one.

    Raises:
        InputError: a value for missing amounts that is neither None nor an int >= 0, or one name for both.
    """

    duration: str = "duration"
    """Name of the attribute of nodes with the duration."""
    size: str = "size"
    """Name of the attribute of nodes with the size."""
    missing_duration: int | None = None
    """Duration of nodes that have none; None: refuse them."""
    missing_size: int | None = None
    """Size of nodes that have none; None: refuse them."""

    def __post_init__(self) -> None:
        for what in ("missing_duration", "missing_size"):
            value = getattr(self, what)
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(f"{what} is {shown(value)}, expected an integer >= 0")
        if self.duration == self.size:
            raise InputError(f"{shown(self.size)} cannot be both the duration and the size")

    @property
    def wanted(self) -> frozenset[str]:
        """Names of all attributes of nodes that are read."""
        own = ("label", "label_json", "backward", "workspace", "id_json", "device_durations", "in_place")
        return frozenset((self.duration, self.size, *own, *_STRUCTURES))


@dataclass
class TextGraph:
    """A graph as a file has it."""

    about: dict[str, str] = field(default_factory=dict)
    """Attributes of the graph."""
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    """Attributes of each node, by id in the file."""
    edges: list[tuple[str, str]] = field(default_factory=list)
    """Ids of tail and head."""


def check_length(text: str, limit: int) -> None:
    """Refuse a text of more than `limit` characters.

    Raises:
        InputError: it is longer.
    """
    if len(text) > limit:
        raise InputError(f"{len(text)} characters, over the limit of {limit} for this format; use JSON")


def reading(parse: Callable[[str, Amounts], ComputationGraph]) -> Callable[..., ComputationGraph]:
    """What reads a file with the parser of its format: called with a path, and with fields of `Amounts` by name.

    It raises `InputError` if the file cannot be read, for nonsense in `Amounts`, and what `parse` raises.
    """

    def read(path: str | PathLike[str], **amounts: Json) -> ComputationGraph:
        text = load_text(path)
        with located(path):
            return parse(text, Amounts(**amounts))

    return read


def writing(text_of: Callable[[ComputationGraph], str]) -> Callable[[ComputationGraph, str | PathLike[str]], None]:
    """What writes a graph to a file, whole or not at all; the same graph always gives the same bytes.

    It raises `InputError` if the file cannot be written, or `graph.attributes` holds what is not JSON.
    """
    return lambda graph, path: replace_file(path, text_of(graph))


# --- text to graph -------------------------------------------------------------------------------------------


def computation_graph(found: TextGraph, amounts: Amounts) -> ComputationGraph:
    """The computation graph that a file describes.

    Raises:
        InputError: a missing or malformed attribute, an edge with an unknown end, to itself or given twice, or no
            valid graph; with the node where there is one.
    """
    ids = [_node_id(found, text) for text in found.nodes]
    index = {node: at for at, node in enumerate(ids)}
    assumed: list[str] = []
    durations = _amounts(found, amounts.duration, amounts.missing_duration, assumed)
    sizes = _amounts(found, amounts.size, amounts.missing_size, assumed)
    about = {key: _json_value(found.about[key], key) for key in _JSON_FIELDS if key in found.about}
    own = about.get("attributes", {})
    if not isinstance(own, dict):
        raise InputError(f"graph attribute attributes: {shown(own)}, expected an object")
    foreign = {key: value for key, value in found.about.items() if key not in _OWN_KEYS}
    texts: JsonObject = {key: _text(found.about, key, default) for key, default in _TEXT_FIELDS}
    structures = [
        {key: _json_value(values[key], f"{_node(node)}: {key}") for key in _STRUCTURES if key in values}
        for node, values in found.nodes.items()
    ]
    return ComputationGraph(
        nodes=tuple(ids),
        durations=durations,
        sizes=sizes,
        edges=_edges(found),
        order=resolve_list(ids, about, "order"),
        labels=_labels(found),
        backward=_of_all(found, "backward", _flag) or None,
        workspaces=_amounts(found, "workspace", 0, []),
        in_place=_overwritable(found, ids),
        device_durations=by_device(tuple(found.nodes), _of_all(found, "device_durations", _json_value)),
        fixed_memory=about.get("fixed_memory", {}),
        computed_once=resolve_list(ids, about, "computed_once") or (),
        operators=operators_in(ids, structures),
        parts=parts_in(ids, structures),
        output_of=output_of_in(index, structures),
        adjacent=adjacent_in(index, structures),
        attributes={**foreign, **own, **({"assumed": assumed} if assumed else {})},
        **texts,
    )


def _node_id(found: TextGraph, text: str) -> NodeId:
    values = found.nodes[text]
    if "id_json" in values:
        return _json_value(values["id_json"], f"{_node(text)}: id_json")
    return int(text) if _is_integer_id(text) else text


def _is_integer_id(text: str) -> bool:
    return _INTEGER_ID.fullmatch(text) is not None and abs(int(text)) < 2**63


def _amounts(found: TextGraph, key: str, missing: int | None, assumed: list[str]) -> tuple[int, ...]:
    """The integer under `key` of each node; what was taken for missing ones is added to `assumed` as one line."""
    values, without = [], []
    for node, attributes in found.nodes.items():
        text = attributes.get(key, "")
        value = integer(text)
        if value is None:
            if text.strip():
                raise InputError(f"{_node(node)}: {key} is {shown(text)}, expected an integer 0 to 2**53{_hint(text)}")
            if missing is None:
                raise InputError(f"{_node(node)}: {key} is missing")
            without.append(node)
            value = missing
        values.append(value)
    if without:
        assumed.append(f"{key} missing, {missing} taken: {count_text(len(without), 'node')}: {some_of(without)}")
    return tuple(values)


def _hint(text: str) -> str:
    """What to do about a fraction, for a message; empty for anything else."""
    text = text.strip()
    fraction = "." in text and text[0] != "-" and len(text) <= _NUMBER_CHARACTERS and _NUMBER.fullmatch(text)
    return "; scale all of them to a smaller unit in which they are integers" if fraction else ""


def integer(text: str) -> int | None:
    """The integer 0 to 2**53 that a decimal number stands for exactly ("12", "12.0", "1.2e1"); None if it does not."""
    text = text.strip()
    if len(text) < 16 and text.isascii() and text.isdigit():
        return int(text)
    if len(text) > _NUMBER_CHARACTERS or not _NUMBER.fullmatch(text):
        return None
    try:
        value = Decimal(text)
        return int(value) if 0 <= value <= TOTAL_LIMIT and value == value.to_integral_value() else None
    except InvalidOperation:  # an exponent beyond Decimal's
        return None


def _labels(found: TextGraph) -> tuple[str, ...] | None:
    """None if no node has a label; the id stands in for a missing one."""
    if not any("label" in values or "label_json" in values for values in found.nodes.values()):
        return None
    return tuple(
        _json_value(values["label_json"], f"{_node(node)}: label_json")
        if "label_json" in values
        else values.get("label", node)
        for node, values in found.nodes.items()
    )


def _of_all(found: TextGraph, key: str, parse: Callable[[str, str], object]) -> tuple[Json, ...]:
    """What all nodes have under `key`, or none has; `parse` gets its name for messages."""
    if not any(key in values for values in found.nodes.values()):
        return ()
    parsed = []
    for node, values in found.nodes.items():
        if key not in values:
            raise InputError(f"{_node(node)}: {key} is missing, other nodes have it")
        parsed.append(parse(values[key], f"{_node(node)}: {key}"))
    return tuple(parsed)


def _overwritable(found: TextGraph, ids: list[NodeId]) -> tuple[tuple[int, ...], ...] | None:
    if not any("in_place" in values for values in found.nodes.values()):
        return None
    given = [
        _json_value(values["in_place"], f"{_node(node)}: in_place") if "in_place" in values else []
        for node, values in found.nodes.items()
    ]
    return overwritable(ids, given)


def _flag(text: str, what: str) -> bool:
    flag = _FLAGS.get(text.strip().lower())
    if flag is None:
        raise InputError(f"{what} is {shown(text)}, expected true or false")
    return flag


def _edges(found: TextGraph) -> tuple[tuple[int, int], ...]:
    position = {node: at for at, node in enumerate(found.nodes)}
    edges: dict[tuple[int, int], None] = {}
    for tail, head in found.edges:
        for node in (tail, head):
            if node not in position:
                raise InputError(f"edge {_arrow(tail, head)}: there is no node {shown(node)}")
        if tail == head:
            raise InputError(f"edge {_arrow(tail, head)}: the node reads itself")
        edge = position[tail], position[head]
        if edge in edges:
            raise InputError(f"edge {_arrow(tail, head)} is given twice")
        edges[edge] = None
    return tuple(edges)


def _arrow(tail: str, head: str) -> str:
    return f"{shown(tail)} -> {shown(head)}"


def _node(node: str) -> str:
    return f"node {shown(node)}"


def _text(about: dict[str, str], key: str, default: str) -> str:
    return _json_value(about[f"{key}_json"], f"{key}_json") if f"{key}_json" in about else about.get(key, default)


def _json_value(text: str, what: str) -> Json:
    """The JSON value in an attribute that messages call `what`."""
    if not what.startswith("node "):
        what = f"graph attribute {what}"
    if not text.strip():
        raise InputError(f"{what} is empty")
    try:
        return parse_json(text, what)
    except InputError as error:
        raise InputError(str(error).removesuffix(" (is the file cut short?)")) from None


# --- graph to text -------------------------------------------------------------------------------------------


def graph_attributes(graph: ComputationGraph) -> dict[str, str]:
    """Attributes of a graph as text, defaults left out.

    Raises:
        InputError: `graph.attributes` holds what is not JSON.
    """
    texts: dict[str, str] = {}
    for key, default in _TEXT_FIELDS:
        value = getattr(graph, key)
        if value != default:
            texts.update({key: value} if is_plain(value) else {f"{key}_json": json.dumps(value)})
    if graph.order is not None:
        texts["order"] = json.dumps([graph.nodes[v] for v in graph.order])
    if graph.computed_once:
        texts["computed_once"] = json.dumps([graph.nodes[v] for v in graph.computed_once])
    if graph.fixed_memory:
        texts["fixed_memory"] = json.dumps(graph.fixed_memory)
    if graph.attributes:
        texts["attributes"] = attributes_json(graph.attributes)
    return texts


def node_attributes(graph: ComputationGraph) -> Iterator[dict[str, str]]:
    """Attributes of each node as text, `id_json` only where the text of the id would be read as an integer."""
    for v, node in enumerate(graph.nodes):
        texts = {}
        for key, value in graph.attributes_of(v).items():
            texts[key] = value if key == "label" else json.dumps(value)
            if key == "size" and type(node) is str and _is_integer_id(node):
                texts["id_json"] = json.dumps(node)
            if key == "label" and not is_plain(value):
                texts["label"] = "".join(c if is_plain(c) else "\N{REPLACEMENT CHARACTER}" for c in value)
                texts["label_json"] = json.dumps(value)
        yield texts


def is_plain(text: str) -> bool:
    """True if the text goes unchanged through every tool: only printable characters and line feeds."""
    return text.isprintable() or all(line.isprintable() for line in text.split("\n"))
