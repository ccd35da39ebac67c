"""Smaller graphs with the same schedules: operations that run in the memory of their producer become part of it. ::

    conv --> bn --> relu --> conv           bn and relu each read one output, which nothing else reads and which is as
    -------------------      ----           large as their own: they can run in place, right after it is computed
      one node, conv         conv

Let v read u alone, let nothing else read u, and let both outputs be of one size. Then no schedule is lost: in any
schedule of the graph let v be computed in place right after u each time that a v follows before the next u, let its
output stand wherever the one of u or of v stood, and drop all other computations of v. That takes no more memory at
any time and no more computations of any node. Nor is any gained that could not be executed: u and v have the peak of
the merged node if v runs in place. So only operations that can run in place are merged: elementwise ones, and those
that leave their input where it is; none with a workspace, which would be taken while the inputs of u are still
retained.

The formulation `staged` knows only some of all schedules: every node follows a batch of recomputations, in the input
order. A merged graph has fewer batches, so that of those schedules some may be lost, while `general` loses none. To
lose few, u and v are merged only where v directly follows u in the input order; then 19 of 82,740 random instances of 4
to 7 nodes had a shorter staged schedule before.

With `fuse`, v may be anywhere in the order, and an elementwise v may read other outputs besides (a residual addition).
The merged node reads them before u is computed, too, so schedules that compute them between u and v are lost.

Of operations with several outputs none is merged with those behind it.

A merged node may overwrite what its first member may, unless another member reads that too; it is computed once if one
of its members is. It is known what it computes where each member but the first reads only its own place of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from moccasin_mzn.graphs.access_maps import every
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.memory_model import refuse_adjacent
from moccasin_mzn.graphs.operators import Operator

ELEMENTWISE = frozenset(
    """
    abs add add_ batchnormalization bias_add cast ceil celu clamp clip cos div dropout elu erf exp floor
    gelu hardsigmoid hardswish hardtanh identity leaky_relu leakyrelu log logical_not mish mul neg pow prelu
    reciprocal relu relu_ relu6 round rsqrt selu sigmoid sign silu sin softplus softsign sqrt sub sum swish
    tan tanh thresholdedrelu _to_copy threshold_backward
    """.split()  # noqa: SIM905
)
"""Operators, in lower case, whose output element depends on the elements at its own place alone.

Sum is that of ONNX, the sum of tensors."""
RESTING = frozenset("alias detach dropout flatten identity reshape squeeze unsqueeze view".split())  # noqa: SIM905
"""Operators that leave the elements where they are; only what costs nothing is taken for one."""
LAYERS = frozenset("act activation bn drop dropout flatten gelu relu relu6 reshape sigmoid silu swish tanh".split())  # noqa: SIM905
"""Last words of names of layers, such as conv1_relu, that can run in place."""

MERGED = "merged"
"""Attribute of a reduced graph."""
_NAMESPACES = ("aten", "prims", "onnx")


@dataclass(frozen=True)
class Reduction:
    """A smaller graph and what its nodes stand for."""

    original: ComputationGraph
    graph: ComputationGraph
    members: tuple[tuple[int, ...], ...]
    """For each node of `graph` the nodes of `original` it computes, in their order; the first gives it its id."""

    @classmethod
    def nothing(cls, graph: ComputationGraph) -> Reduction:
        """The graph itself."""
        return cls(graph, graph, tuple((v,) for v in range(len(graph.nodes))))

    def expand(self, sequence: Sequence[int]) -> tuple[int, ...]:
        """A schedule of `graph` as one of `original`: positions in the nodes of each."""
        return tuple(member for node in sequence for member in self.members[node])


def reduce_graph(graph: ComputationGraph, *, fuse: bool = False, elementwise: Iterable[str] = ()) -> Reduction:
    """Merge operations into the producers in whose memory they can run.

    Args:
        fuse: merge operations far from their producers and with several inputs too, which may lose schedules.
        elementwise: patterns, such as `*_add`, of labels (or ids, where there are none) that are elementwise besides
            the operators known as such.

    Returns:
        Sizes are those of the original; durations of merged nodes are added up. The input order has a merged node where
        the last of its members was that reads anything but members. The graph attribute "merged" lists by the id of a
        node the ids it stands for, in their order; of a graph that was reduced before, the ids of the first graph.

    Raises:
        InputError: nodes of the graph read several outputs as one.
    """
    refuse_adjacent(graph, "reductions", "reduce the graph before concatenations are taken out")
    group = _groups(graph, fuse, tuple(elementwise))
    order = graph.input_order()
    rank = {v: at for at, v in enumerate(order)}
    members: dict[int, list[int]] = {}
    for v in order:
        members.setdefault(group[v], []).append(v)
    heads = sorted(members)  # nodes stay in their order
    position = {head: at for at, head in enumerate(heads)}

    def ready_at(head: int) -> int:
        """Rank of the last member that reads something from outside; the head's, if none does."""
        outside = (v for v in members[head] if any(group[u] != head for u in graph.predecessors[v]))
        return max((rank[v] for v in outside), default=rank[head])

    edges = {(position[group[u]], position[group[v]]): None for u, v in graph.edges if group[u] != group[v]}
    reduced = ComputationGraph(
        nodes=tuple(graph.nodes[head] for head in heads),
        durations=tuple(sum(graph.durations[v] for v in members[head]) for head in heads),
        sizes=tuple(graph.sizes[head] for head in heads),
        edges=tuple(edges),
        order=tuple(position[head] for head in sorted(heads, key=ready_at)),
        name=graph.name,
        labels=None if graph.labels is None else tuple(_label(graph, members[head]) for head in heads),
        duration_unit=graph.duration_unit,
        size_unit=graph.size_unit,
        attributes={**graph.attributes, **_merged(graph, [members[head] for head in heads])},
        backward=None if graph.backward is None else tuple(graph.backward[head] for head in heads),
        fixed_memory=graph.fixed_memory,
        workspaces=None if graph.workspaces is None else tuple(graph.workspaces[head] for head in heads),
        in_place=_overwritable(graph, group, members, position),
        computed_once=tuple({position[group[v]]: None for v in graph.computed_once}),
        runs_in_place=graph.runs_in_place,
        device_durations={
            device: tuple(_sum_on_device(of, members[head]) for head in heads)
            for device, of in graph.device_durations.items()
        },
        operators=tuple(_operator(graph, members[head], group, position) for head in heads),
        output_of=None
        if graph.output_of is None
        else tuple(None if (of := graph.output_of[head]) is None else position[group[of]] for head in heads),
    )
    return Reduction(graph, reduced, tuple(tuple(members[head]) for head in heads))


def _operator(
    graph: ComputationGraph, row: Sequence[int], group: Sequence[int], position: Mapping[int, int]
) -> Operator | None:
    """What a merged node computes: what its first member does, on all that is read; None where others do more."""
    operators = [graph.operators[v] if graph.operators else None for v in row]
    first, reads = operators[0], []
    for each in operators:
        if first is None or each is None or each.shape != first.shape:
            return None
        for read in each.reads:
            if read.source is None:
                reads.append(read)
            elif group[read.source] != row[0]:
                reads.append(replace(read, source=position[group[read.source]]))
            elif read.axes != every(len(read.shape)):
                return None
    alone = first is not None and len(reads) == len(first.reads)
    return first and replace(
        first, reads=tuple(reads), accumulator=first.accumulator if alone else 0,
        unchanged=first.unchanged and len(row) == 1,
    )  # fmt: skip


def _overwritable(
    graph: ComputationGraph, group: Sequence[int], members: dict[int, list[int]], position: dict[int, int]
) -> tuple[tuple[int, ...], ...] | None:
    """Inputs that merged nodes may overwrite, as positions in the reduced graph; `members` by their first."""
    if graph.in_place is None:
        return None
    found: list[list[int]] = [[] for _ in position]
    for head, row in members.items():
        read_later = {group[u] for v in row[1:] for u in graph.predecessors[v]}
        found[position[head]] = [position[group[u]] for u in graph.in_place[head] if group[u] not in read_later]
    return tuple(map(tuple, found))


def _groups(graph: ComputationGraph, fuse: bool, patterns: tuple[str, ...]) -> list[int]:
    """For each node the first of the nodes it is merged with."""
    group = list(range(len(graph.nodes)))
    rank = {v: at for at, v in enumerate(graph.input_order())}
    for v in graph.input_order():
        inputs = graph.predecessors[v]
        if (len(inputs) == 1 or (inputs and fuse)) and _in_place(graph, v, patterns):
            hosts = [u for u in inputs if _can_host(graph, u, v) and (fuse or rank[v] == rank[u] + 1)]
            if hosts:
                group[v] = group[max(hosts, key=rank.__getitem__)]
    return group


def _can_host(graph: ComputationGraph, u: int, v: int) -> bool:
    if graph.output_of is not None and (graph.output_of[u] is not None or graph.outputs_of[u]):
        return False  # outputs of one operation stay apart
    same_pass = graph.backward is None or graph.backward[u] == graph.backward[v]
    same_memory = graph.sizes[u] == graph.sizes[v] and not graph.workspace_of[v]
    return graph.successors[u] == (v,) and same_memory and same_pass


def _in_place(graph: ComputationGraph, v: int, patterns: tuple[str, ...]) -> bool:
    """True if the operation can put its output where (one of) its inputs was, by its label or else its id."""
    text = str(graph.nodes[v]) if graph.labels is None else graph.labels[v]
    if any(fnmatchcase(text, pattern) for pattern in patterns):
        return True
    return all(_names_in_place(part.split(), graph.durations[v]) for part in text.lower().split(" + "))


def _names_in_place(words: Sequence[str], duration: int) -> bool:
    """True if the last of these words, as in "layer1.relu aten.relu.default", is such an operator or layer."""
    name = words[-1] if words else ""
    namespace, *operator = re.split(r"[.:]+", name)
    if namespace in _NAMESPACES and operator:
        name = operator[0]
    elif name not in ELEMENTWISE | RESTING:
        return name.rpartition("_")[2] in LAYERS and not operator
    return name in ELEMENTWISE or (name in RESTING and not duration)


def _merged(graph: ComputationGraph, groups: Sequence[Sequence[int]]) -> dict[str, dict[str, list[NodeId]]]:
    """The attribute "merged", which goes on from that of the graph."""
    before = graph.attributes.get(MERGED)
    before = before if isinstance(before, dict) else {}

    def ids(v: int) -> list[NodeId]:
        known = before.get(str(graph.nodes[v]))
        return known if isinstance(known, list) else [graph.nodes[v]]

    merged = {str(graph.nodes[group[0]]): [node for v in group for node in ids(v)] for group in groups}
    merged = {node: stands_for for node, stands_for in merged.items() if len(stands_for) > 1}
    return {MERGED: merged} if merged else {}


def _sum_on_device(durations: Sequence[int | None], group: Sequence[int]) -> int | None:
    """Sum the durations of a merged node; None if one of its members cannot be computed on the device."""
    known = [duration for v in group if (duration := durations[v]) is not None]
    return sum(known) if len(known) == len(group) else None


def _label(graph: ComputationGraph, members: Sequence[int]) -> str:
    return " + ".join((graph.labels or ())[v] for v in members)
