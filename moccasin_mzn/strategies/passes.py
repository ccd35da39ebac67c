"""An instance as strategies see it: nodes numbered along the input order, forward and backward pass told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moccasin_mzn.problem.instance import Instance


@dataclass(frozen=True)
class Passes:
    """Nodes 0..n-1 along the input order, which are also the stages that end with their first computations."""

    order: tuple[int, ...]
    """Position in `graph.nodes` of each node."""
    inputs: tuple[tuple[int, ...], ...]
    """The nodes each node reads, ascending."""
    size: tuple[int, ...]
    duration: tuple[int, ...]
    backward: tuple[bool, ...] | None
    """True for the nodes of the backward pass; None: unknown, and not to be told from the edges."""

    @property
    def forward(self) -> tuple[int, ...]:
        """The nodes of the forward pass, ascending; all nodes if it is not known which they are."""
        return tuple(v for v in range(len(self.order)) if self.backward is None or not self.backward[v])

    @classmethod
    def of(cls, instance: Instance) -> Passes:
        """Number the nodes."""
        graph, order = instance.graph, instance.order
        number = {v: k for k, v in enumerate(order)}
        inputs = tuple(tuple(sorted(number[u] for u in graph.predecessors[v])) for v in order)
        return cls(
            order=order,
            inputs=inputs,
            size=tuple(graph.sizes[v] for v in order),
            duration=tuple(graph.durations[v] for v in order),
            backward=_mirrored(inputs) if graph.backward is None else tuple(graph.backward[v] for v in order),
        )


def _mirrored(inputs: Sequence[Sequence[int]]) -> tuple[bool, ...] | None:
    """What follows the first half as the backward pass, if it mirrors that: of n nodes, node n - 1 - v reads node v.

    So it is in every training graph by Checkmate's construction, the node in the middle being the loss (see
    `generators.checkmate`), and hardly in any other but tiny ones.
    """
    n = len(inputs)
    if n < 5 or n % 2 == 0 or not all(v in inputs[n - 1 - v] for v in range(n // 2)):
        return None
    return tuple(v >= n // 2 for v in range(n))
