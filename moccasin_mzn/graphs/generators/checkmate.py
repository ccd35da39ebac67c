"""The backward pass, by Checkmate's construction (Jain et al., MLSys 2020).

What one forward edge u -> v becomes::

      u -----> v          ...  last -----> loss
      |      / |                  |          |
      |    /   |                  |          |
      v  v     v                  v          |
    grad u <- grad v  <- ...  grad last <----'

A gradient reads the output of its layer and of its layer's readers, but not the inputs of its layer. The
construction reproduces the FCN8, VGG16 and ResNet50 training graphs published with the code of MOCCASIN (Bartan et
al., ICML 2023).
"""

from __future__ import annotations

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.generators.network import BYTES_PER_ELEMENT
from moccasin_mzn.graphs.graph import ComputationGraph

BACKWARD_FACTOR = 2
"""Duration of a gradient over that of its layer, in FLOP mode."""


def training_graph(forward: ComputationGraph, batch: int) -> ComputationGraph:
    """Forward pass, loss and backward pass: 2 F + 1 nodes for F forward nodes.

    Args:
        forward: in topological order of positions, with one output, which is the last node.
        batch: samples; the loss is one number each.

    Returns:
        Nodes with ids 0..2F: the forward nodes in their order, the loss F, and 2F - u the gradient of u. A gradient
        has its layer's size and twice its duration; the loss has duration 0. The ids are the input order. The loss
        counts as backward, as in the published graphs. Gradients of parameters are no nodes; fixed memory is that of
        the forward graph.

    Raises:
        InputError: several outputs, positions out of topological order, or a batch below 1.
    """
    count = len(forward.nodes)
    if type(batch) is not int or batch < 1:
        raise InputError(f"batch is {shown(batch)}, expected an integer of 1 or more")
    for v, readers in enumerate(forward.successors):
        if not readers and v != count - 1:
            raise InputError(f"node {forward.nodes[v]}: nothing reads it, but only the last node may be an output")
    forward.check_order(range(count))

    loss = count
    edges = set(forward.edges)
    edges |= {(v, 2 * count - u) for u, v in forward.edges}
    edges |= {(2 * count - v, 2 * count - u) for u, v in forward.edges}
    edges |= {(u, 2 * count - u) for u in range(count)}
    edges |= {(count - 1, loss), (loss, loss + 1)}
    labels = forward.labels or tuple(map(str, forward.nodes))
    return ComputationGraph(
        nodes=tuple(range(2 * count + 1)),
        durations=(*forward.durations, 0, *(BACKWARD_FACTOR * w for w in reversed(forward.durations))),
        sizes=(*forward.sizes, BYTES_PER_ELEMENT * batch, *reversed(forward.sizes)),
        edges=tuple(sorted(edges)),
        order=tuple(range(2 * count + 1)),
        name=forward.name.replace("inference", "training"),
        labels=(*labels, "loss", *(f"{label}_backward" for label in reversed(labels))),
        duration_unit=forward.duration_unit,
        size_unit=forward.size_unit,
        attributes=forward.attributes,
        fixed_memory=forward.fixed_memory,
        backward=tuple(v >= loss for v in range(2 * count + 1)),
    )
