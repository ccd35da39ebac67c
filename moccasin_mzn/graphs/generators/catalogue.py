"""The networks that graphs are made of, by name, with what can be chosen about each.

generate_network("resnet50", batch=256, training=True)
generate_network("unet", batch=8, input=(128, 128, 1), depth=3)
generate_network("transformer", batch=4, sequence=512, layers=6, training=True, optimizer="adam")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.generators import architectures
from moccasin_mzn.graphs.generators.network import (
    BYTES_PER_ELEMENT,
    NONE,
    OPTIMIZERS,
    Architecture,
    training_graph,
    unknown,
)
from moccasin_mzn.graphs.graph import ComputationGraph


def generate_network(
    name: str,
    batch: int,
    input: tuple[int, int, int] | None = None,
    training: bool = False,
    optimizer: str = "none",
    **parameters: int,
) -> ComputationGraph:
    """The graph of a network of the catalogue, forward or with loss and backward pass by Checkmate's construction.

    Args:
        name: of the network, in any case.
        batch: samples.
        input: (height, width, channels); default: the network's.
        training: with loss and backward pass.
        optimizer: one of `OPTIMIZERS`, for training. Fixed memory then has the "gradients" of the trained parameters
            and what the "optimizer" keeps for them. Both are no nodes: they live through the whole backward pass.
        parameters: of the network, by name.

    Returns:
        Sizes in bytes, durations in FLOP, parameters and the input batch as fixed memory. The attribute "network"
        holds the name, batch, input, parameters and optimizer.

    Raises:
        InputError: an unknown name, parameter or optimizer, or a value out of range.
    """
    architecture = find(name)
    if optimizer not in OPTIMIZERS:
        raise InputError(unknown("optimizer", optimizer, OPTIMIZERS))
    if optimizer != NONE and not training:
        raise InputError(f"optimizer {optimizer}: there is no optimizer without training")
    network = architecture.build(input, **parameters)
    graph = network.forward_graph(batch)
    if training:
        graph = training_graph(graph, batch)
    facts: dict[str, object] = {"name": architecture.name, "batch": batch}
    if architecture.input is not None:
        facts["input"] = list(network.input_shape)
    facts |= architecture.chosen(**parameters)
    fixed = dict(graph.fixed_memory)
    if optimizer != NONE:
        facts["optimizer"] = optimizer
        trained = BYTES_PER_ELEMENT * network.trained_parameters()
        fixed |= {"gradients": trained, "optimizer": OPTIMIZERS[optimizer] * trained}
    return replace(graph, fixed_memory=fixed, attributes={"network": facts})


def find(name: str) -> Architecture:
    """The network of this name, in any case.

    Raises:
        InputError: there is none; the message lists what there is.
    """
    found = NETWORKS.get(str(name).lower())
    if found is None:
        raise InputError(unknown("network", name, NETWORKS))
    return found


NETWORKS: Mapping[str, Architecture] = {
    entry.name: entry
    for module in architectures.MODULES
    for entry in import_module(f"{architectures.__name__}.{module}").NETWORKS
}
"""The networks by name."""
