"""Chains: the least graph that memory can run out on, forward only or with a backward pass."""

from __future__ import annotations

from moccasin_mzn.graphs.generators.checkmate import training_graph
from moccasin_mzn.graphs.generators.randomness import RawRandom, check_integer, check_nodes
from moccasin_mzn.graphs.graph import ComputationGraph

LARGEST = 999
"""Sizes and durations are uniform integers from 1 to this."""


def chain(n: int, seed: int, *, training: bool = True, unit: bool = False) -> ComputationGraph:
    """A chain of `n` layers, each reading the one before.

    Args:
        n: layers, 1 or more.
        seed: of sizes and durations, 0 or more.
        training: add a loss and the gradients by Checkmate's construction: 2 n + 1 nodes. A forward chain alone has
            the peak of its largest step: no budget below that is feasible.
        unit: every size and duration is 1 (but those of the loss and of gradients).

    Raises:
        InputError: parameters out of range.
    """
    check_nodes(n, 1)
    check_integer("seed", seed, 0)
    random = RawRandom(seed)
    sizes, durations = ([1] * n if unit else random.integers(1, LARGEST, n).tolist() for _ in range(2))
    forward = ComputationGraph(
        nodes=tuple(range(n)),
        durations=tuple(durations),
        sizes=tuple(sizes),
        edges=tuple((v, v + 1) for v in range(n - 1)),
        order=tuple(range(n)),
        name=f"chain, {n} layers, {'training' if training else 'inference'}" + ("" if unit else f", seed {seed}"),
    )
    return training_graph(forward, 1) if training else forward
