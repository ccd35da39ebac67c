"""The computation graph: what to compute, how long it takes, how much memory its output needs.

Nothing here knows of budgets or of schedules; see `simulate` for what a sequence of computations costs.
"""

from __future__ import annotations

import heapq
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from moccasin_mzn.base.arguments import checked, named
from moccasin_mzn.base.checks import plain, sequence
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import Json, JsonObject
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.graphs.adjacency import Groups, adjacent_in, blocks_of, check_adjacent
from moccasin_mzn.graphs.checks import (
    MANY,
    TOTAL_LIMIT,
    NodeId,
    as_tuple,
    by_device,
    check_amounts,
    check_computed_once,
    check_device_durations,
    check_edges,
    check_fixed_memory,
    check_ids,
    check_in_place,
    check_optional,
    check_output_of,
    check_texts,
    check_workspaces,
    ends_of,
    missing,
    missing_reads,
    output_of_in,
    pairs,
    positions,
)
from moccasin_mzn.graphs.operators import (
    Operator,
    Part,
    check_operators,
    check_parts,
    operator_json,
    operators_in,
    part_json,
    parts_in,
)

__all__ = ["TOTAL_LIMIT", "ComputationGraph", "NodeId", "WorkingSet"]

if TYPE_CHECKING:
    import networkx
    from numpy import ndarray

_CYCLE_NODES_SHOWN = 8
_OF_NODES = (
    "nodes", "durations", "sizes", "order", "labels", "backward", "workspaces", "in_place", "computed_once",
    "operators", "parts", "output_of", "adjacent",
)  # fmt: skip


@dataclass(frozen=True)
class WorkingSet:
    """What must be in memory together while one node is computed: its inputs, its output and its workspace."""

    node: int
    """Position of the node in `ComputationGraph.nodes`."""
    memory: int
    """In the graph's size unit."""


@named
@dataclass(frozen=True)
class ComputationGraph:
    """A directed acyclic graph of outputs, and of the operations that compute them.

    ::

        nodes      ("a", "b", "c", "d")          a, 3 s, 4 B
        durations  ( 3,   1,   2,   1 )           |      \\
        sizes      ( 4,   2,   2,   1 )        b, 1 s   c, 2 s       edge u -> v:
        edges      ((0, 1), (0, 2),             2 B      2 B         v reads the output of u
                    (1, 3), (2, 3))                \\     /
        order      (0, 2, 1, 3)                  d, 1 s, 1 B

    Nodes have an id, which is what files and people use, and a position 0..n-1, which is what the program
    uses: `edges`, `order` and every other collection of nodes in this package hold positions.

    An operation has one output, or several: then the first is the node that is computed, and the others name it in
    `output_of`. These have no duration of their own, and read the first and what that reads: such edges need not be
    given. Computing the first node makes all of them, so that further outputs come directly after it or not at all::

        split, 2 s, 4 B ──> left ──> ...         output_of = (None, None, 1): the memory of `split` is that of its
          └ right, 0 s, 4 B ───────> ...         first output; `right` has 4 B of its own, and readers of its own

    Lists and arrays are accepted where tuples are stored, and numpy's integers where ints are. `edges`, `order` and
    `computed_once` may also name nodes by their ids: a text is an id ("7" that of 7), an integer a position, unless it
    is not one and no id of the graph is; all are stored as positions. Everything is checked at birth, in
    time proportional to nodes and edges (but for the heap that breaks ties in `topological_order`).

    Raises:
        InputError: an empty graph; an id that is not an int or a printable non-empty str, is given twice, or is written
            like another (1 and "1"); a size or duration that is no integer (16.0 is one; fractions, bool and str are
            refused) or is negative; a total over `TOTAL_LIMIT`; a workspace that is no size; an output that may
            overwrite what its node does not read, or what is smaller; a node to be computed once that is missing, or is
            given twice; a further output that has a duration, a workspace or an output of its own, may overwrite
            anything, or has memory where the first has none; outputs to be read as one that cannot lie side by side; a
            label that is no str, a `backward` that is no bool; an operator that reads what is no predecessor; an amount
            of fixed memory that is no int >= 0; durations of a device that are not one int >= 0 or None for each node;
            an edge to an unknown node, from a node to itself, or given twice; a cycle; an order that is not a
            topological order of all nodes.
    """

    nodes: tuple[NodeId, ...]
    """Ids as in the file."""
    durations: tuple[int, ...]
    """Time one computation of each node takes, in `duration_unit`, 0 or more."""
    sizes: tuple[int, ...]
    """Memory the output of each node takes, in `size_unit`, 0 or more."""
    edges: tuple[tuple[int, int], ...]
    """(tail, head): the head reads the output of the tail; positions, or ids."""
    order: tuple[int, ...] | None = None
    """Input order, a topological order; None if none was given."""
    name: str = ""
    labels: tuple[str, ...] | None = None
    """Human names, one per node; need not be unique."""
    duration_unit: str = "unit"
    size_unit: str = "unit"
    attributes: Mapping[str, Json] = field(default_factory=dict, hash=False)
    """Free-form provenance, such as `made_by`; JSON values only if the graph is to be written."""
    backward: tuple[bool, ...] | None = None
    """True for the nodes of the backward pass of a training graph, its loss included; None: unknown."""
    fixed_memory: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Memory retained throughout whatever the schedule, in `size_unit`, by what it holds ("parameters", "optimizer"):
    no part of any node's size, nor of any peak; a budget counts it in only where that is asked for."""
    device_durations: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict, hash=False)
    """By name of a device, time one computation of each node takes there, in `duration_unit`; None: not possible."""
    workspaces: tuple[int, ...] | None = None
    """Memory that each computation of a node takes while it goes on, in addition to its inputs and its output, in
    `size_unit`; before and after it takes none. None: no node has a workspace, which is also what zeros for all
    become."""
    in_place: tuple[tuple[int, ...], ...] | None = None
    """For each node those of its predecessors whose memory its output may take, none smaller than it; see `simulate`.
    None: no node may do so, which is also what nothing for all becomes. Done only if the graph `runs_in_place`."""
    computed_once: tuple[int, ...] = ()
    """Nodes that output something else each time, or cost more again than in the graph, ascending: no search repeats
    them."""
    runs_in_place: bool = False
    """Do computations overwrite what they may? A matter of how the graph is run, which no file has."""
    operators: tuple[Operator | None, ...] | None = None
    """What each node computes, as far as it is known, for `graphs.tiling`; None: of no node."""
    parts: tuple[Part | None, ...] | None = None
    """The part of a layer that each node of a tiled graph is; None for what is whole."""
    output_of: tuple[int | None, ...] | None = None
    """For each node that is a further output the node whose computation makes it too; None: it is computed itself.
    None: every operation has one output."""
    adjacent: tuple[Groups, ...] | None = None
    """For each node the groups of its inputs that it reads as one: in memory each of a group lies directly after the
    one before, so that no concatenation need copy them; see `graphs.adjacency`. None: no node reads any so."""

    if TYPE_CHECKING:  # what is taken; the fields are what it becomes

        def __init__(
            self,
            nodes: Iterable[NodeId],
            durations: Iterable[int],
            sizes: Iterable[int],
            edges: Iterable[Iterable[int | str]],
            order: Iterable[int | str] | None = None,
            name: str = "",
            labels: Iterable[str] | None = None,
            duration_unit: str = "unit",
            size_unit: str = "unit",
            attributes: Mapping[str, Json] = ...,
            backward: Iterable[bool] | None = None,
            fixed_memory: Mapping[str, int] = ...,
            device_durations: Mapping[str, Iterable[int | None]] = ...,
            workspaces: Iterable[int] | None = None,
            in_place: Iterable[Iterable[int]] | None = None,
            computed_once: Iterable[int | str] = (),
            runs_in_place: bool = False,
            operators: Iterable[Operator | None] | None = None,
            parts: Iterable[Part | None] | None = None,
            output_of: Iterable[int | None] | None = None,
            adjacent: Iterable[Iterable[Iterable[int]]] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in _OF_NODES:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_tuple(name, getattr(self, name)))
        if not isinstance(self.attributes, Mapping):
            raise InputError(f"attributes is {shown(self.attributes)}, expected values by name")
        object.__setattr__(self, "attributes", dict(self.attributes))
        object.__setattr__(self, "fixed_memory", check_fixed_memory(self.fixed_memory))
        check_ids(self.nodes)
        object.__setattr__(self, "edges", pairs(self.edges, self.nodes))
        for name in ("order", "computed_once"):
            if getattr(self, name):
                object.__setattr__(self, name, positions(name, getattr(self, name), self.nodes))
        object.__setattr__(self, "device_durations", check_device_durations(self.nodes, self.device_durations))
        object.__setattr__(self, "durations", check_amounts(self.nodes, "duration", self.durations))
        object.__setattr__(self, "sizes", check_amounts(self.nodes, "size", self.sizes))
        object.__setattr__(self, "workspaces", check_workspaces(self.nodes, self.sizes, self.workspaces))
        check_optional(self.nodes, "label", self.labels, (str,), "a string")
        check_optional(self.nodes, "backward flag", self.backward, (bool,), "true or false")
        check_texts(name=self.name, duration_unit=self.duration_unit, size_unit=self.size_unit)
        if self.size_unit == "bytes":  # the unit whose amounts are shown in KiB, MiB, ...
            object.__setattr__(self, "size_unit", "byte")
        check_edges(self.nodes, self.edges)
        object.__setattr__(self, "in_place", check_in_place(self.nodes, self.sizes, self.edges, self.in_place))
        own = {"a duration": self.durations, "a workspace": self.workspaces or (), "in_place": self.in_place or ()}
        own |= {f"a duration on {device}": durations for device, durations in self.device_durations.items()}
        own = {name: values for name, values in own.items() if len(values)}
        object.__setattr__(self, "output_of", check_output_of(self.nodes, self.output_of, self.sizes, own))
        if self.output_of is not None:
            object.__setattr__(self, "edges", self.edges + missing_reads(self.nodes, self.edges, self.output_of))
        object.__setattr__(self, "computed_once", check_computed_once(self.nodes, self.computed_once))
        adjacent = check_adjacent(self.nodes, self.sizes, self.edges, self.adjacent, self.in_place)
        object.__setattr__(self, "adjacent", adjacent)
        object.__setattr__(self, "operators", check_operators(self.nodes, self.edges, self.operators))
        object.__setattr__(self, "parts", check_parts(self.nodes, self.parts))
        if type(self.runs_in_place) is not bool:
            raise InputError(f"runs_in_place is {shown(self.runs_in_place)}, expected true or false")
        if self.output_of is not None:
            self._check_outputs()
        if self.order is not None and self._ascending(self.order):
            return  # an order of all nodes: there is no cycle
        if len(self._kahn) < len(self.nodes):
            raise InputError(f"cycle: {_cycle_text(self)}")
        if self.order is not None:
            self.check_order(self.order)

    def __repr__(self) -> str:
        name = [shown(self.name)] if self.name else []
        counts = count_text(len(self.nodes), "node"), count_text(len(self.edges), "edge")
        size = f"total size {memory_text(self.total_size, self.size_unit)}"
        return f"ComputationGraph({', '.join((*name, *counts, size))})"

    def _check_outputs(self) -> None:
        """Check what only a whole graph shows of further outputs, and have the order list them after the first."""
        if self.total_size + max(self.workspace_of) > TOTAL_LIMIT:
            raise InputError("all sizes and the largest workspace sum to more than 2**53; use a larger unit")
        once = {self.operation_of[v] for v in self.computed_once}
        spread = tuple(v for v, first in enumerate(self.operation_of) if first in once)
        object.__setattr__(self, "computed_once", spread)
        if self.order is not None and len(set(self.order)) == len(self.order) == len(self.nodes):
            object.__setattr__(self, "order", self.together(self.order))

    # --- structure ---------------------------------------------------------------------------------------

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each node the nodes whose output it reads, in the order of `edges`."""
        inputs: list[list[int]] = [[] for _ in self.nodes]
        for tail, head in self.edges:
            inputs[head].append(tail)
        return tuple(map(tuple, inputs))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each node the nodes that read its output, in the order of `edges`."""
        readers: list[list[int]] = [[] for _ in self.nodes]
        for tail, head in self.edges:
            readers[tail].append(head)
        return tuple(map(tuple, readers))

    @cached_property
    def outputs_of(self) -> tuple[tuple[int, ...], ...]:
        """For each node the further outputs that its computation makes, ascending."""
        rows: list[list[int]] = [[] for _ in self.nodes]
        for v, first in enumerate(self.output_of or ()):
            if first is not None:
                rows[first].append(v)
        return tuple(map(tuple, rows))

    @cached_property
    def operation_of(self) -> tuple[int, ...]:
        """For each node the first output of its operation: itself, unless it is a further one."""
        return tuple(
            v if first is None else first for v, first in enumerate(self.output_of or [None] * len(self.nodes))
        )

    def least_of_operations(self, values: Mapping[int, int]) -> dict[int, int]:
        """By first output the least of the values that the outputs of an operation have."""
        least: dict[int, int] = {}
        for v, value in values.items():
            first = self.operation_of[v]
            least[first] = min(value, least.get(first, value))
        return least

    def together(self, sequence: Sequence[int]) -> tuple[int, ...]:
        """The same computations with each further output directly after the latest computation of its first one.

        What is read is still there: a further output reads no more than the first one does. It may be retained longer.

        Args:
            sequence: positions; of values that are none, and of what comes before its first output, nothing is moved.
        """
        if self.output_of is None or not any(self.outputs_apart(sequence)):
            return tuple(sequence)
        runs: list[list[int]] = []
        latest: dict[int, list[int]] = {}
        first_of: dict[object, int | None] = dict(enumerate(self.output_of))
        for v in sequence:
            first = first_of.get(v)
            run = None if first is None else latest.get(first)
            if run is None:
                runs.append([v])
                latest[v] = runs[-1]
            elif v not in run:
                run.append(v)
        return tuple(v for run in runs for v in run)

    def with_all_outputs(self, sequence: Sequence[int]) -> tuple[int, ...]:
        """The same computations, each of a first output with all further ones behind it, retained or not."""
        if self.output_of is None:
            return tuple(sequence)
        rows = ((v, *self.outputs_of[v]) for v in sequence if self.output_of[v] is None)
        return tuple(v for row in rows for v in row)

    def outputs_apart(self, sequence: Sequence[int]) -> Iterator[int]:
        """The places, from 0, at which a further output comes neither directly after its first one nor after another
        output of that."""
        if self.output_of is None:
            return
        first_of: dict[object, int | None] = dict(enumerate(self.output_of))
        for at, v in enumerate(sequence):
            first, before = first_of.get(v), sequence[at - 1] if at else None
            if first is not None and first not in (before, first_of.get(before)):
                yield at

    @cached_property
    def edge_ends(self) -> ndarray:
        """int32[m, 2]: the tail and the head of each edge, for what goes through millions of them."""
        return ends_of(self.edges)

    @cached_property
    def index(self) -> dict[NodeId, int]:
        """Position of each id, exactly as the id is typed in `nodes`."""
        return {node: position for position, node in enumerate(self.nodes)}

    @cached_property
    def _index_by_text(self) -> dict[str, int]:
        return {str(node): position for position, node in enumerate(self.nodes)}

    def positions_of(self, nodes: Iterable[int | str], what: str = "nodes") -> tuple[int, ...]:
        """Positions of nodes that are given as for `edges`: by position or by id.

        Args:
            what: their name in messages.

        Raises:
            InputError: a text that is no id, or what `edges` refuses.
        """
        return positions(what, as_tuple(what, nodes, "a sequence of positions or ids"), self.nodes, self.attributes)

    def position_of(self, node: NodeId) -> int:
        """Position of the node with this id, where "3" also finds 3 (order files and command lines hold text).

        Raises:
            InputError: no node has this id.
        """
        node = plain(node)
        if type(node) in (int, str):
            position = self.index.get(node)
            if position is None and type(node) is str:
                position = self._index_by_text.get(node)
            if position is not None:
                return position
        raise InputError(missing(node, self.attributes))

    # --- orders ------------------------------------------------------------------------------------------

    @cached_property
    def _kahn(self) -> tuple[int, ...]:
        """Kahn's algorithm, smallest position first; shorter than `nodes` if there is a cycle."""
        waiting = [len(inputs) for inputs in self.predecessors]
        ready = [v for v, count in enumerate(waiting) if count == 0]  # ascending, hence a heap
        order = []
        while ready:
            v = heapq.heappop(ready)
            order.append(v)
            for head in self.successors[v]:
                waiting[head] -= 1
                if waiting[head] == 0:
                    heapq.heappush(ready, head)
        return tuple(order)

    def topological_order(self) -> tuple[int, ...]:
        """The topological order that always takes the ready node of smallest position."""
        return self.together(self._kahn)

    def input_order(self) -> tuple[int, ...]:
        """The order that came with the graph, or `topological_order()` if none did."""
        return self.topological_order() if self.order is None else self.order

    def check_order(self, order: Sequence[int]) -> None:
        """Check that `order` holds every position once and every edge's tail before its head.

        Raises:
            InputError: it does not; the message names the node or the edge.
        """
        if self._ascending(order):
            return
        place = [-1] * len(self.nodes)
        for at, v in enumerate(order):
            if type(v) is not int or not 0 <= v < len(self.nodes):
                raise InputError(f"order[{at}]: {shown(v)} is not a position 0..{len(self.nodes) - 1}")
            if place[v] >= 0:
                raise InputError(f"order[{at}]: node {self.nodes[v]} was already at order[{place[v]}]")
            place[v] = at
        if -1 in place:
            raise InputError(f"order: node {self.nodes[place.index(-1)]} is missing")
        for tail, head in self.edges:
            if place[tail] > place[head]:
                raise InputError(
                    f"order is not topological: edge {self.nodes[tail]} -> {self.nodes[head]}, but "
                    f"{self.nodes[head]} is at order[{place[head]}], {self.nodes[tail]} at order[{place[tail]}]"
                )

    def _ascending(self, order: Sequence[int]) -> bool:
        """Is it quickly seen that `order` is a topological order? Only of many edges; else nothing is known."""
        n = len(self.nodes)
        if len(self.edges) < MANY or len(order) != n or set(map(type, order)) != {int}:
            return False
        import numpy as np

        if not 0 <= min(order) <= max(order) < n:
            return False
        place = np.full(n, -1, np.int32)
        place[np.asarray(order)] = np.arange(n, dtype=np.int32)
        ends = place[self.edge_ends]
        return bool(place.min() >= 0 and np.all(ends[:, 0] < ends[:, 1]))

    # --- totals ------------------------------------------------------------------------------------------

    @cached_property
    def total_duration(self) -> int:
        """Duration of computing every node once, in `duration_unit`."""
        return sum(self.durations)

    @cached_property
    def total_size(self) -> int:
        """Memory of all outputs together, in `size_unit`."""
        return sum(self.sizes)

    @cached_property
    def total_fixed_memory(self) -> int:
        """All of `fixed_memory` together, in `size_unit`."""
        return sum(self.fixed_memory.values())

    @cached_property
    def workspace_of(self) -> tuple[int, ...]:
        """Memory that a computation of each node takes besides its inputs and its own output, in `size_unit`: its
        workspace, and further outputs, which are all made at once, if perhaps not all retained."""
        own = self.workspaces or (0,) * len(self.nodes)
        if self.output_of is None:
            return own
        rows = zip(own, self.outputs_of, strict=True)
        return tuple(workspace + sum(map(self.sizes.__getitem__, outputs)) for workspace, outputs in rows)

    @property
    def has_workspaces(self) -> bool:
        """True if `workspace_of` of any node is not 0."""
        return self.workspaces is not None or (self.output_of is not None and any(self.workspace_of))

    def largest_workspace(self) -> int:
        """The position of the node (the first of equals) with the largest workspace of its own."""
        return max(range(len(self.nodes)), key=(self.workspaces or (0,) * len(self.nodes)).__getitem__)

    def without_workspaces(self) -> ComputationGraph:
        """The same graph as if no computation took a workspace."""
        return self if self.workspaces is None else replace(self, workspaces=None)

    @cached_property
    def overwritable(self) -> tuple[tuple[int, ...], ...] | None:
        """`in_place`, if computations do so; None: none does."""
        return self.in_place if self.runs_in_place else None

    @cached_property
    def spared(self) -> tuple[int, ...]:
        """For each node the memory that a computation takes less, in `size_unit`, if it overwrites an input: its size,
        or 0 if it never does."""
        rows = self.overwritable or ((),) * len(self.nodes)
        return tuple(size if row else 0 for size, row in zip(self.sizes, rows, strict=True))

    @cached_property
    def places(self) -> tuple[tuple[int, int] | None, ...]:
        """For each node its block, named by the first node in order of addresses, and its place in it, from 0, in
        `size_unit`; None: it is not read as one with others."""
        groups = (group for row in self.adjacent or () for group in row)
        return tuple(map(blocks_of(self.sizes, groups).place_of, range(len(self.nodes))))

    def run_in_place(self, doing: bool = True) -> ComputationGraph:
        """The same graph with computations that overwrite what they may, or that do not."""
        return self if self.runs_in_place == doing else replace(self, runs_in_place=doing)

    @cached_property
    def working_sets(self) -> tuple[int, ...]:
        """Memory of the inputs, the output and the workspace of each node, less what it spares, in `size_unit`."""
        inputs = (sum(map(self.sizes.__getitem__, row)) for row in self.predecessors)
        own = (size - less for size, less in zip(self.sizes, self.spared, strict=True))
        return tuple(map(sum, zip(own, self.workspace_of, inputs, strict=True)))

    def working_set(self, node: int) -> int:
        """The id of the node at this position."""
        return self.working_sets[node]

    def largest_working_set(self) -> WorkingSet:
        """The node (the first of equals) that needs most memory for itself: no budget below it is feasible."""
        memory = max(self.working_sets)
        return WorkingSet(self.working_sets.index(memory), memory)

    def attributes_of(self, node: int) -> JsonObject:
        """The attributes of the node in files and networkx at this position, besides its id; what is not given is left
        out."""
        attributes: JsonObject = {"duration": self.durations[node], "size": self.sizes[node]}
        if self.workspaces is not None:
            attributes["workspace"] = self.workspaces[node]
        if self.in_place is not None and self.in_place[node]:
            attributes["in_place"] = [self.nodes[u] for u in self.in_place[node]]
        if self.labels is not None:
            attributes["label"] = self.labels[node]
        if self.backward is not None:
            attributes["backward"] = self.backward[node]
        if self.device_durations:
            attributes["device_durations"] = {
                device: durations[node] for device, durations in self.device_durations.items()
            }
        if self.operators is not None and (operator := self.operators[node]) is not None:
            attributes["operator"] = operator_json(operator, self.nodes)
        if self.parts is not None and (part := self.parts[node]) is not None:
            attributes["part"] = part_json(part)
        if self.output_of is not None and (first := self.output_of[node]) is not None:
            attributes["output_of"] = self.nodes[first]
        if self.adjacent is not None and self.adjacent[node]:
            attributes["adjacent"] = [[self.nodes[u] for u in group] for group in self.adjacent[node]]
        return attributes

    # --- networkx ----------------------------------------------------------------------------------------

    @classmethod
    @checked()
    def from_networkx(
        cls, g: networkx.DiGraph, duration: str = "duration", size: str = "size", order: Iterable[NodeId] | None = None
    ) -> ComputationGraph:
        """Convert a networkx graph; integers of other types (numpy's) become ints.

        Args:
            g: directed, no multigraph. Node attributes `label`, `backward` and `device_durations` (a mapping), each on
                every node, become `labels`, `backward` and `device_durations`; `workspace`, 0 where it is missing,
                `workspaces`, `in_place`, a list of ids, and `operator` and `part`, as in files, the fields of these
                names; of the graph attributes `name`, `duration_unit`, `size_unit`, `fixed_memory` and
                `computed_once`, a list of ids, are fields, the others become `attributes`.
            duration, size: node attributes to read.
            order: ids in input order; default: the graph attribute `order`, if there.

        Raises:
            InputError: an undirected graph or multigraph, a missing attribute, or what the constructor refuses.
        """
        if not hasattr(g, "is_multigraph"):
            raise InputError(f"{shown(g)} is no networkx graph")
        if not g.is_directed() or g.is_multigraph():
            raise InputError("the networkx graph must be directed and no multigraph")
        values = dict(g.nodes(data=True))
        for node, data in values.items():
            for attribute in (duration, size):
                if attribute not in data:
                    raise InputError(f"node {shown(node)}: attribute {attribute!r} is missing")
        position = {node: at for at, node in enumerate(values)}
        about = dict(g.graph)
        file_order = about.pop("order", None)
        order = file_order if order is None else order

        def of_all(attribute: str) -> tuple[Json, ...] | None:
            known = tuple(data[attribute] for data in values.values() if attribute in data)
            return known if len(known) == len(values) else None

        timed = [data.get("device_durations") for data in values.values()]
        return cls(
            nodes=tuple(values),
            durations=tuple(data[duration] for data in values.values()),
            sizes=tuple(data[size] for data in values.values()),
            edges=tuple((position[tail], position[head]) for tail, head in g.edges()),
            order=None if order is None else _positions(position, "order", order),
            name=about.pop("name", ""),
            labels=of_all("label"),
            duration_unit=about.pop("duration_unit", "unit"),
            size_unit=about.pop("size_unit", "unit"),
            fixed_memory=about.pop("fixed_memory", {}),
            computed_once=_positions(position, "computed_once", about.pop("computed_once", ())),
            attributes=about,
            backward=of_all("backward"),
            workspaces=tuple(data.get("workspace", 0) for data in values.values()),
            in_place=tuple(
                _positions(position, f"in_place of node {node}", data.get("in_place", ()))
                for node, data in values.items()
            ),
            device_durations=by_device(tuple(values), timed) if any(of is not None for of in timed) else {},
            operators=operators_in(values, tuple(values.values())),
            parts=parts_in(values, tuple(values.values())),
            output_of=output_of_in(position, tuple(values.values())),
            adjacent=adjacent_in(position, tuple(values.values())),
        )

    def to_networkx(self) -> networkx.DiGraph:
        """The same graph for networkx, as `from_networkx` reads it back."""
        import networkx  # here, because most uses of this module do not need it and it loads slowly

        g = networkx.DiGraph(**self.attributes)
        g.graph.update(name=self.name, duration_unit=self.duration_unit, size_unit=self.size_unit)
        if self.fixed_memory:
            g.graph["fixed_memory"] = dict(self.fixed_memory)
        if self.order is not None:
            g.graph["order"] = [self.nodes[v] for v in self.order]
        if self.computed_once:
            g.graph["computed_once"] = [self.nodes[v] for v in self.computed_once]
        g.add_nodes_from((node, self.attributes_of(v)) for v, node in enumerate(self.nodes))
        g.add_edges_from((self.nodes[tail], self.nodes[head]) for tail, head in self.edges)
        return g


def _positions(index: Mapping[NodeId, int], what: str, ids: Iterable[NodeId]) -> tuple[int, ...]:
    """Positions of `ids`; `what` names the collection in the message.

    Raises:
        InputError: an id is not in `index`; the message has its place in `ids`.
    """
    found = []
    for at, node in enumerate(sequence(ids, what, "a sequence of ids")):
        known = type(node) is not bool and isinstance(node, (str, numbers.Integral)) and node in index
        if not known:
            raise InputError(f"{what}[{at}]: node {shown(node)} is not in the graph")
        found.append(index[node])
    return tuple(found)


def _cycle_text(graph: ComputationGraph) -> str:
    """One cycle of a graph that has one; the middle of a long one is left out."""
    stuck = set(range(len(graph.nodes))) - set(graph._kahn)
    # Every stuck node has a stuck predecessor, so walking backwards must come back to a node already met.
    v, met = min(stuck), dict[int, int]()
    while v not in met:
        met[v] = len(met)
        v = next(u for u in graph.predecessors[v] if u in stuck)
    cycle = list(met)[met[v] :][::-1]
    first = cycle.index(min(cycle))
    cycle = cycle[first:] + cycle[: first + 1]
    names = [str(graph.nodes[u]) for u in cycle]
    if len(names) - 1 <= _CYCLE_NODES_SHOWN:
        return " -> ".join(names)
    return " -> ".join([*names[:4], "...", *names[-3:]]) + f" ({count_text(len(names) - 1, 'node')})"
