"""The summands of a gradient, in the order in which autograd adds them up.

    x is read three times     ->  g1, g2, g3      eager: ((others + g1) + g2) + g3
                                                  a part of the network that returns g1 + g2 + g3: others + (...)

Sums of floating-point numbers depend on the order. So a part that reads what others read as well returns the summands
one by one, and autograd adds them to those of others as it does in eager execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def nodes_behind(tensors: Sequence[torch.Tensor]) -> list[torch.autograd.graph.Node]:
    """The nodes of autograd that the backward pass of some tensors runs through."""
    found: dict[torch.autograd.graph.Node, None] = {}
    waiting = [each.grad_fn for each in tensors if each.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += [following for following, _ in node.next_functions if following is not None]
    return [*found]


def edge_of(tensor: torch.Tensor) -> tuple[torch.autograd.graph.Node, int]:
    """Where autograd adds up the gradient of a tensor."""
    from torch.autograd.graph import get_gradient_edge

    edge = get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def summands(
    sources: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]
) -> list[tuple[int, torch.Tensor]]:
    """A list that is filled while the gradients of sources are computed: positions of leaves, and what is added to the
    gradient of each."""
    edges = {edge_of(leaf): at for at, leaf in enumerate(leaves)}
    pairs = zip(sources, tangents, strict=True)
    found = [(edges[edge_of(source)], tangent) for source, tangent in pairs if edge_of(source) in edges]
    for node in nodes_behind(sources):
        places = [(place, edges[edge]) for place, edge in enumerate(node.next_functions) if edge in edges]
        if places:
            node.register_hook(partial(_note_summands, found, places))
    return found


def _note_summands(
    found: list[tuple[int, torch.Tensor]], places: Sequence[tuple[int, int]],
    gradients: Sequence[torch.Tensor | None], _: object,
) -> None:  # fmt: skip
    for place, leaf in places:
        gradient = gradients[place]
        if gradient is not None:
            found.append((leaf, gradient))
