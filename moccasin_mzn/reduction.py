"""Smaller graphs with the same schedules: operations that run in the memory of their producer become part of it. ::

    conv --> bn --> relu --> conv           bn and relu each read one output, which nobody else reads and which is as
    -------------------      ----           large as their own: they can run in place, right after it is computed
      one node, conv         conv

Let v read u alone, let nobody else read u, and let both outputs be of one size. Then no schedule is lost: in any
schedule of the graph let v be computed in place right after u each time that a v follows before the next u, let its
output stand wherever the one of u or of v stood, and drop all other computations of v. That takes no more memory at
any time and no more computations of any node. Nor is any gained that could not be executed: u and v have the peak of
the merged node if v runs in place. So only operations that can run in place are merged: elementwise ones, and those of
no duration that do not move elements about.

With `fuse`, an elementwise v may read other outputs besides (a residual addition). The merged node reads them before u
is computed, too, so schedules that compute them between u and v are lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from moccasin_mzn.graph import ComputationGraph

ELEMENTWISE = frozenset(
    """
    abs add add_ batchnormalization bias_add cast ceil celu clamp clip cos div dropout elu erf exp floor
    gelu hardsigmoid hardswish hardtanh identity leaky_relu leakyrelu log logical_not mish mul neg pow prelu
    reciprocal relu relu_ relu6 round rsqrt selu sigmoid sign silu sin softplus softsign sqrt sub sum swish
    tan tanh thresholdedrelu _to_copy threshold_backward
    """.split()  # noqa: SIM905
)
"""Names of operators, in lower case, whose output element depends on the elements at its own place alone.

Sum is that of ONNX, the sum of tensors."""
MOVING = frozenset(
    """
    concat depthtospace expand flip gather gatherelements gathernd pad permute pixel_shuffle resize reverse
    reversesequence roll scatterelements scatternd shuffle slice sort spacetodepth split t tile topk transpose trilu where
    """.split()  # noqa: SIM905
)
"""Operators that cost nothing in some counts but cannot run in place."""


@dataclass(frozen=True)
class Reduction:
    """A smaller graph and what its nodes stand for."""

    original: ComputationGraph
    graph: ComputationGraph
    members: tuple[tuple[int, ...], ...]
    """For each node of `graph` the nodes of `original` it computes, in their order; the first gives it its id."""

    def expand(self, sequence: Sequence[int]) -> tuple[int, ...]:
        """A schedule of `graph` as one of `original`: positions in the nodes of each."""
        return tuple(member for node in sequence for member in self.members[node])


def reduce_graph(graph: ComputationGraph, *, fuse: bool = False, elementwise: Iterable[str] = ()) -> Reduction:
    """Merge operations into the producers in whose memory they can run.

    Args:
        fuse: merge elementwise operations with several inputs too, which may lose schedules.
        elementwise: patterns, such as `*_relu`, of labels (or ids, where there are none) that are elementwise besides
            the operators known as such.

    Returns:
        Sizes are those of the original; durations of merged nodes are added up. The input order has a merged node where
        the last of its members was that reads anything but members. The graph attribute "merged" lists the ids of
        members by the id of their node.
    """
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
    merged = {str(graph.nodes[h]): [graph.nodes[v] for v in members[h]] for h in heads if len(members[h]) > 1}
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
        attributes={**graph.attributes, **({"merged": merged} if merged else {})},
        backward=None if graph.backward is None else tuple(graph.backward[head] for head in heads),
        fixed_memory=graph.fixed_memory,
    )
    return Reduction(graph, reduced, tuple(tuple(members[head]) for head in heads))


def _groups(graph: ComputationGraph, fuse: bool, patterns: tuple[str, ...]) -> list[int]:
    """For each node the first of the nodes it is merged with."""
    group = list(range(len(graph.nodes)))
    rank = {v: at for at, v in enumerate(graph.input_order())}
    for v in graph.input_order():
        inputs = graph.predecessors[v]
        if not inputs or (len(inputs) > 1 and not fuse):
            continue
        elementwise = _is_elementwise(graph, v, patterns)
        if not elementwise and (len(inputs) > 1 or graph.durations[v] or _words(graph, v) & MOVING):
            continue
        hosts = [u for u in inputs if _can_host(graph, u, v)]
        if hosts:
            group[v] = group[max(hosts, key=rank.__getitem__)]
    return group


def _can_host(graph: ComputationGraph, u: int, v: int) -> bool:
    same_pass = graph.backward is None or graph.backward[u] == graph.backward[v]
    return graph.successors[u] == (v,) and graph.sizes[u] == graph.sizes[v] and same_pass


def _is_elementwise(graph: ComputationGraph, v: int, patterns: tuple[str, ...]) -> bool:
    text = _text(graph, v)
    return bool(_words(graph, v) & ELEMENTWISE) or any(fnmatchcase(text, pattern) for pattern in patterns)


def _text(graph: ComputationGraph, v: int) -> str:
    return str(graph.nodes[v]) if graph.labels is None else graph.labels[v]


def _words(graph: ComputationGraph, v: int) -> set[str]:
    """The operator a label names: "Relu", "aten.relu.default" and "layer1.0.relu aten.relu.default" are all relu."""
    if graph.labels is None:
        return set()
    last = graph.labels[v].lower().split()[-1:]
    return {word for text in last for word in re.split(r"[.:]", text)[:2] if word != "aten"} if last else set()


def _label(graph: ComputationGraph, members: Sequence[int]) -> str:
    return " + ".join(graph.labels[v] for v in members)
