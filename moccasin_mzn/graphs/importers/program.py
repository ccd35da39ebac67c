r"""What a framework executes, operation by operation, and the graph of tensors in memory that this comes to. ::

    conv ---> bn ---> getitem ---> relu ---> flatten ---> gemm        operations, in the order of execution
              |  \--> getitem (not read)        |  view
              |       plumbing                  |
    conv ---> bn -----------------> relu -----------------> gemm      nodes: tensors in memory

Views and tuple plumbing share the memory of what they read, so their readers read that instead. An operation with
several outputs is one node with all of them, or, where its importer splits it, a node for each. What no result of the
program needs is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, shown, some_of
from moccasin_mzn.base.files import Json
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.graphs.access_maps import composed
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.operators import Operator, Read

_NAMED = 5
"""This many nodes of a kind of trouble are named in a message."""

DURATION_UNKNOWN = "duration unknown"
"""How lines about durations begin in a graph's attribute "assumed"."""
STOP = "stop"
ELEMENTS = "elements"


@dataclass(frozen=True)
class Operation:
    """One operation as the framework executes it.

    Raises:
        InputError: a size, number of elements or duration that is neither None nor an int >= 0.
    """

    name: str
    """Unique in the program, and fit for the id of a node; see `unique_names`."""
    kind: str
    """The framework's operator, such as "Conv" or "aten.convolution.default"."""
    inputs: tuple[str, ...]
    """Names of the operations whose outputs it reads; inputs and parameters of the network are left out."""
    size: int | None
    """Bytes of all its outputs; None if that is unknown."""
    elements: int | None
    """Elements of all its outputs; None if that is unknown."""
    duration: int | None
    """In the program's duration unit; None if that is unknown."""
    view: bool = False
    """The output is memory of its first input (or, without inputs, of what is no node); it takes no time."""
    backward: bool = False
    """In the backward pass; the loss counts as backward."""
    workspace: int = 0
    """Bytes that it takes while it computes, besides what it reads and outputs, as far as they are known."""
    scratch: int | None = 0
    """Bytes of tensors that are there only while it computes: outputs that are not read, and values inside its
    subgraphs. They are distinguished from `workspace` as they are counted in any case; None if they are unknown."""
    in_place: tuple[str, ...] = ()
    """The `inputs` over which it may write: each element of its output needs no other element of them than that
    which stands there. (If neither bytes nor elements are fewer; those of a view are the same in any case.)"""
    copies: bool = False
    """The operation's duration is one for each byte that it outputs."""
    once: bool = False
    """To recompute it would take much more time and memory than this, or may output something else: any code that
    executes a schedule wants it computed once, see `ComputationGraph.computed_once`."""
    output_of: str | None = None
    """The operation whose further output this is; it has no duration of its own, and reads that one alone. None: it is
    computed itself."""
    operator: Operator | None = None
    """What the operation computes, if it is known; the source of a `Read` is a place in `inputs`, None for what is no
    operation."""

    def __post_init__(self) -> None:
        for what in ("size", "elements", "duration", "workspace", "scratch"):
            value = getattr(self, what)
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(f"{self.kind} {self.name}: {what} is {shown(value)}, expected an integer >= 0")


@dataclass(frozen=True)
class Program:
    """A traced network.

    Raises:
        InputError: a name given twice, or an input or result that is no operation before it.
    """

    operations: tuple[Operation, ...]
    """In the order of execution."""
    results: tuple[str, ...]
    """Names of the operations whose outputs the network returns; these are kept to the end."""
    name: str = ""
    duration_unit: str = "FLOP"
    fixed_memory: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Bytes by what they hold, see `ComputationGraph.fixed_memory`."""

    def __post_init__(self) -> None:
        known: set[str] = set()
        for operation in self.operations:
            for read in operation.inputs:
                if read not in known:
                    raise InputError(f"{operation.kind} {operation.name} reads {shown(read)} before it is computed")
            if operation.name in known:
                raise InputError(f"{operation.kind} {operation.name}: the name is given twice")
            known.add(operation.name)
        for result in self.results:
            if result not in known:
                raise InputError(f"result {shown(result)} is no operation")


@dataclass(frozen=True)
class Missing:
    """What stands in for what a framework does not provide.

    Raises:
        InputError: a value other than those below.
    """

    size: int | str = STOP
    """Bytes, or "stop"."""
    duration: int | str = ELEMENTS
    """In the program's duration unit; "elements": one for each element of the output; or "stop"."""
    sizes: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Bytes of outputs by name, before `size`: of an operation, or, in ONNX, of a value."""

    def __post_init__(self) -> None:
        for what, words in (("size", (STOP,)), ("duration", (STOP, ELEMENTS))):
            value = getattr(self, what)
            if value not in words and (type(value) is not int or value < 0):
                raise InputError(f"unknown {what} {shown(value)}: expected {', '.join(words)} or an integer >= 0")
        for name, value in self.sizes.items():
            if type(value) is not int or value < 0:
                raise InputError(f"unknown size {shown(value)} of {shown(name)}: expected an integer >= 0")


def program_graph(
    program: Program,
    missing: Missing,
    *,
    merge_views: bool = True,
    keep_results: bool = True,
    workspaces: bool = False,
    attributes: Mapping[str, Json] | None = None,
) -> ComputationGraph:
    """The graph of tensors in memory that a program comes to.

    Args:
        merge_views: if not, views are nodes with memory of their own, as if they copied.
        keep_results: of several results, keep all to the end: a last node of no size and no duration reads them. A
            single result is computed last in any case.
        workspaces: nodes have those of their operations; if not, their `scratch` alone.
        attributes: for the graph; "assumed" is added if something was, a list of lines.

    Returns:
        Ids are the names of operations, labels their kinds; the input order is that of execution.

    Raises:
        InputError: a size or a duration is unknown and `missing` is to stop; nothing is left.
    """
    memory = _memory(program) if merge_views else {operation.name: operation.name for operation in program.operations}
    known = _operators(program, memory)
    operations = [
        replace(
            operation,
            operator=known[operation.name],
            inputs=_distinct(memory[read] for read in operation.inputs),
            in_place=_distinct(memory[read] for read in operation.in_place or operation.inputs[: operation.view]),
        )
        for operation in program.operations
        if memory[operation.name] == operation.name
    ]
    results = _distinct(memory[name] for name in program.results)
    kept = _needed(operations, results)
    if not kept:
        raise InputError("nothing is computed from the network's inputs")
    in_backward = any(operation.backward for operation in kept)
    if keep_results and len(results) > 1:
        last = unique_names([*(operation.name for operation in program.operations), "results"])[-1]
        kept.append(Operation(last, "results", results, size=0, elements=0, duration=0, backward=in_backward))
    assumed: list[str] = [*(attributes or {}).get("assumed", ())]
    kept = _with_sizes(_with_unneeded(kept, operations), missing, assumed)
    sizes, durations = [operation.size or 0 for operation in kept], _durations(kept, missing, assumed)
    position = {operation.name: at for at, operation in enumerate(kept)}
    return ComputationGraph(
        nodes=tuple(position),
        durations=tuple(durations),
        sizes=tuple(sizes),
        edges=tuple((position[read], at) for at, operation in enumerate(kept) for read in operation.inputs),
        order=tuple(range(len(kept))),
        name=program.name,
        labels=tuple(operation.kind for operation in kept),
        duration_unit=program.duration_unit,
        size_unit="byte",
        in_place=_overwritable(kept, sizes, frozenset(results)),
        computed_once=tuple(at for at, operation in enumerate(kept) if operation.once),
        attributes={**(attributes or {}), **({"assumed": assumed} if assumed else {})},
        backward=tuple(operation.backward for operation in kept) if in_backward else None,
        fixed_memory=program.fixed_memory,
        workspaces=tuple((operation.scratch or 0) + operation.workspace * workspaces for operation in kept),
        operators=tuple(_placed(operation, position) for operation in kept),
        output_of=tuple(None if of.output_of is None else position[of.output_of] for of in kept),
    )


def _operators(program: Program, memory: Mapping[str, str | None]) -> dict[str, Operator | None]:
    """What operations compute of that in whose memory their inputs are, by name; a source is a place among these."""
    found: dict[str, Operator | None] = {}
    for operation in program.operations:
        bases = _distinct(memory[name] for name in operation.inputs)

        def read_of(read: Read, operation: Operation = operation, bases: tuple[str, ...] = bases) -> Read | None:
            name = None if read.source is None else operation.inputs[read.source]
            base = None if name is None else memory[name]
            source = None if base is None else bases.index(base)
            if name == base:
                return replace(read, source=source)
            view = found[name] if name else None
            if view is None or len(view.reads) != 1:
                return None
            return Read(source, view.reads[0].shape, composed(view.reads[0].axes, read.axes))

        reads = [*map(read_of, operation.operator.reads)] if operation.operator else []
        known = tuple(read for read in reads if read is not None)
        found[operation.name] = (
            replace(operation.operator, reads=known) if operation.operator and len(known) == len(reads) else None
        )
    return found


def _placed(operation: Operation, position: Mapping[str, int]) -> Operator | None:
    """What an operation computes, with positions of nodes for sources."""
    if operation.operator is None:
        return None
    reads = (
        read if read.source is None else replace(read, source=position[operation.inputs[read.source]])
        for read in operation.operator.reads
    )
    return replace(operation.operator, reads=tuple(reads))


def _overwritable(
    operations: list[Operation], sizes: list[int], results: frozenset[str | None]
) -> tuple[tuple[int, ...], ...]:
    """For each operation the positions of those that it may overwrite: no results, and as many bytes and elements."""
    position = {operation.name: at for at, operation in enumerate(operations)}

    def equal(v: int, u: int) -> bool:
        elements = operations[u].elements
        same = elements is not None and elements == operations[v].elements and sizes[u] == sizes[v]
        return (same or (operations[v].view and sizes[v] <= sizes[u])) and operations[u].name not in results

    rows = [[position[name] for name in operation.in_place] for operation in operations]
    return tuple(tuple(u for u in row if equal(v, u)) for v, row in enumerate(rows))


def unique_names(names: Iterable[str]) -> list[str]:
    """Names fit for ids of nodes: printable, without blanks around them, not empty; a second one gets a number."""
    taken: set[str] = set()
    last_number: dict[str, int] = {}
    found = []
    for name in names:
        clean = "".join(character if character.isprintable() else "_" for character in name).strip() or "node"
        unique = clean
        while unique in taken:
            last_number[clean] = last_number.get(clean, 1) + 1
            unique = f"{clean}_{last_number[clean]}"
        taken.add(unique)
        found.append(unique)
    return found


def known_total(amounts: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is unknown."""
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _memory(program: Program) -> dict[str, str | None]:
    """For each operation the one whose output its own is part of; None: of an input or a parameter."""
    memory: dict[str, str | None] = {}
    for operation in program.operations:
        base: str | None = operation.name
        if operation.view:
            base = memory[operation.inputs[0]] if operation.inputs else None
        memory[operation.name] = base
    return memory


def _distinct(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))


def _needed(operations: Iterable[Operation], results: Iterable[str]) -> list[Operation]:
    """The operations that the results need, in their order."""
    reads = {operation.name: operation.inputs for operation in operations}
    needed, waiting = set(), list(results)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(reads[name])
    return [operation for operation in operations if operation.name in needed]


def _with_unneeded(kept: list[Operation], operations: Iterable[Operation]) -> list[Operation]:
    """The operations with further outputs that are left out as scratch of the first ones: they are made anyway."""
    there = {operation.name for operation in kept}
    left: dict[str, list[int | None]] = {}
    for operation in operations:
        if operation.output_of in there and operation.name not in there:
            left.setdefault(operation.output_of, []).append(operation.size)
    return [
        replace(operation, scratch=known_total([operation.scratch, *left.get(operation.name, ())]))
        for operation in kept
    ]


def _with_sizes(operations: list[Operation], missing: Missing, assumed: list[str]) -> list[Operation]:
    """The operations with what is to be taken for sizes that are unknown, those of what is inside them too."""
    operations = _with_given(operations, missing.sizes)
    unknown = [operation for operation in operations if operation.size is None]
    inside = [operation for operation in operations if operation.scratch is None]
    size = missing.size if isinstance(missing.size, int) else 0
    for found, what in ((unknown, ""), (inside, " of what is inside, or read by nobody,")):
        if found and missing.size == STOP:
            message = f"the size{what} is unknown of {_listed(found)}; choose what to take (--unknown-size)"
            raise InputError(Page.ONNX.after(message))
        if found:
            assumed.append(f"size{what} unknown, {count_text(size, 'byte')} taken: {_listed(found)}")
    return [
        replace(
            operation,
            size=size if operation.size is None else operation.size,
            scratch=size if operation.scratch is None else operation.scratch,
            duration=operation.size or size if operation.copies and operation.duration is None else operation.duration,
        )
        for operation in operations
    ]


def _with_given(operations: list[Operation], sizes: Mapping[str, int]) -> list[Operation]:
    known = {operation.name: operation.size for operation in operations}
    for name, size in sizes.items():
        if name not in known:
            raise InputError(f"size of {shown(name)}: there is no such operation")
        if known[name] not in (None, size):
            raise InputError(f"size of {shown(name)}: it is known, {known[name]:,} bytes, not {size:,}")
    return [replace(operation, size=sizes.get(operation.name, operation.size)) for operation in operations]


def _durations(operations: list[Operation], missing: Missing, assumed: list[str]) -> list[int]:
    unknown = [operation for operation in operations if operation.duration is None]
    by_elements = missing.duration == ELEMENTS
    stopping = [operation for operation in unknown if operation.elements is None] if by_elements else unknown
    if stopping and (by_elements or missing.duration == STOP):
        raise InputError(
            Page.ONNX.after(f"the duration is unknown of {_listed(stopping)}; choose what to take (--unknown-duration)")
        )
    if unknown:
        taken = "one for each element of the output" if by_elements else missing.duration
        assumed.append(f"{DURATION_UNKNOWN}, {taken} taken: {_listed(unknown)}")
    duration = missing.duration if isinstance(missing.duration, int) else 0
    return [
        operation.duration
        if operation.duration is not None
        else operation.elements or 0 if by_elements else duration
        for operation in operations
    ]  # fmt: skip


def _listed(operations: list[Operation]) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(o.kind for o in operations).most_common(_NAMED))
    names = some_of((operation.name for operation in operations), _NAMED)
    return f"{count_text(len(operations), 'node')} ({kinds}): {names}"


# --- Durations in other units: operations to nanoseconds of a device, or to what was measured -----------------


NANOSECOND = "ns"
_OPERATIONS = ("FLOP", "MAC")
_PREFIXES = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_FORM = re.compile(r"(\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,2})?)\s*([kMGTP]?)", re.ASCII)


def parse_peak(text: str) -> Fraction:
    """Operations per second: "19.5T", "312e12", "4000000000".

    Raises:
        InputError: it is not one, or not over 0.
    """
    form = _FORM.fullmatch(text.strip())
    if form is None or Fraction(form[1]) <= 0:
        raise InputError(f"peak {shown(text)}: expected operations per second, such as 19.5T or 19.5e12")
    return Fraction(form[1]) * 10 ** _PREFIXES[form[2]]


def scaled(graph: ComputationGraph, peak: Fraction) -> ComputationGraph:
    """The graph with durations in nanoseconds of a device that does `peak` of the graph's operations in a second.

    Rounded up, so that what takes time still does.

    Raises:
        InputError: the graph's durations are no operations (FLOP or MAC), or are too long for a graph.
    """
    if graph.duration_unit not in _OPERATIONS:
        raise InputError(
            f"durations are in {shown(graph.duration_unit)}; only {' and '.join(_OPERATIONS)} can be turned into time"
        )
    durations = tuple(-(-duration * 10**9 * peak.denominator // peak.numerator) for duration in graph.durations)
    return replace(graph, durations=durations, duration_unit=NANOSECOND)


def profiled(graph: ComputationGraph, nanoseconds: Mapping[NodeId, int]) -> ComputationGraph:
    """An imported graph with measured durations; a node of none that was not measured, as it does nothing, has 0.

    Raises:
        InputError: another node was not measured.
    """
    durations = dict(zip(graph.nodes, graph.durations, strict=True))
    missing = [node for node, duration in durations.items() if duration and node not in nanoseconds]
    if missing:
        raise InputError(f"{count_text(len(missing), 'node')} not measured, such as {missing[0]}")
    about = dict(graph.attributes)
    assumed = [line for line in about.pop("assumed", []) if not line.startswith(DURATION_UNKNOWN)]
    return replace(
        graph,
        durations=tuple(nanoseconds.get(node, 0) for node in durations),
        duration_unit=NANOSECOND,
        attributes={**about, **({"assumed": assumed} if assumed else {})},
    )
