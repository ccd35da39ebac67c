"""The networks that graphs are made of, by name, with what can be chosen about each.

generate_network("resnet50", batch=256, training=True)
generate_network("unet", batch=8, input=(128, 128, 1), depth=3)
generate_network("transformer", batch=4, sequence=512, layers=6, training=True, optimizer="adam")
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.generators import architectures
from moccasin_mzn.graphs.generators.checkmate import training_graph
from moccasin_mzn.graphs.generators.network import BYTES_PER_ELEMENT, Network
from moccasin_mzn.graphs.generators.randomly_wired import randomly_wired
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.optimizers import NONE, OPTIMIZERS

_LARGEST = 2**20


@dataclass(frozen=True)
class Parameter:
    """An integer that can be chosen about a network."""

    name: str
    default: int
    meaning: str
    least: int = 1
    most: int = _LARGEST


@dataclass(frozen=True)
class Architecture:
    """A network of the catalogue."""

    name: str
    """Lower case, as on a command line."""
    title: str
    source: str
    """The publication."""
    input: tuple[int, int, int] | None
    """Default (height, width, channels); None: the input is no image, and a parameter gives its size."""
    parameters: tuple[Parameter, ...]
    builder: Callable[..., Network]
    """Called with height, width and channels, unless `input` is None, and with all parameters by name."""

    def build(self, input: tuple[int, int, int] | None = None, /, **parameters: int) -> Network:
        """The network for one shape of input and these parameters; what is not given is the default.

        Raises:
            InputError: an input or a parameter that is unknown, out of range, or does not fit the network.
        """
        chosen = self.chosen(**parameters)
        shape = self.input_shape(input)
        return self.builder(**chosen) if shape is None else self.builder(*shape, **chosen)

    def chosen(self, /, **parameters: int) -> dict[str, int]:
        """All parameters: the given ones, checked, and the defaults of the others.

        Raises:
            InputError: a parameter that is unknown, no integer or out of range.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name, value in parameters.items():
            if name not in known:
                raise InputError(f"{self.name}: {_unknown('parameter', name, known)}")
            least, most = known[name].least, known[name].most
            if type(value) is not int or not least <= value <= most:
                raise InputError(f"{self.name}: {name} is {shown(value)}, expected an integer from {least} to {most}")
        return {name: parameters.get(name, parameter.default) for name, parameter in known.items()}

    def input_shape(self, input: tuple[int, int, int] | None = None) -> tuple[int, int, int] | None:
        """The given input shape, checked, or the default; None if the network takes none.

        Raises:
            InputError: not three integers in range, or given to a network that takes no image.
        """
        if input is None:
            return self.input
        if self.input is None:
            raise InputError(f"{self.name}: takes no image; its input is given by parameters: {_names(self)}")
        if len(input) != 3:
            raise InputError(f"{self.name}: the input is {shown(input)}, expected height, width and channels")
        for what, value in zip(("height", "width", "channels"), input, strict=True):
            if type(value) is not int or not 1 <= value <= _LARGEST:
                raise InputError(f"{self.name}: {what} is {shown(value)}, expected an integer from 1 to {_LARGEST}")
        return tuple(input)


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
        raise InputError(_unknown("optimizer", optimizer, OPTIMIZERS))
    if optimizer != NONE and not training:
        raise InputError(f"optimizer {optimizer}: there is no optimizer without training")
    network = architecture.build(input, **parameters)
    graph = network.forward_graph(batch)
    if training:
        graph = training_graph(graph, batch)
    facts: dict[str, Any] = {"name": architecture.name, "batch": batch}
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
        raise InputError(_unknown("network", name, NETWORKS))
    return found


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(str(name).lower(), known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"there is no {what} {shown(name)}{hint}; there are {', '.join(known)}"


def _names(architecture: Architecture) -> str:
    return ", ".join(parameter.name for parameter in architecture.parameters)


_FUSED = Parameter("fused", 1, "1: ReLU, convolution and batch norm are one node; 0: three", least=0, most=1)


def _classes(default: int) -> Parameter:
    return Parameter("classes", default, "classes told apart")


def _fusible(builder: Callable[..., Network]) -> Callable[..., Network]:
    """`builder` with its `fused` as an integer."""
    return lambda *shape, fused, **others: builder(*shape, fused=bool(fused), **others)


def _randwire(height: int, width: int, channels: int, *, base_channels: int, **others: int) -> Network:
    fused = others.pop("fused")
    shape = (height, width, channels)
    return randomly_wired(channels=base_channels, input_shape=shape, fused=fused > 0, sums_fused=fused > 1, **others)


_VGG = "Simonyan and Zisserman, ICLR 2015"
_RESNET = "He et al., CVPR 2016"
_DENSENET = "Huang et al., CVPR 2017"
_NASNET = "Zoph et al., CVPR 2018"
_PNASNET = "Liu et al., ECCV 2018"
_IMAGE = (224, 224, 3)
_LARGE_IMAGE = (331, 331, 3)
_STREET = (416, 608, 3)

_LABELS = (_classes(1000),)
_SEARCHED = (_classes(1000), _FUSED)

_UNET_PARAMETERS = (
    _classes(2),
    Parameter("depth", 4, "times the image is halved", most=16),
    Parameter("base_channels", 64, "channels of the top level; every level down doubles them"),
)
_RANDWIRE_PARAMETERS = (
    _classes(1000),
    Parameter("seed", 0, "seed of the wiring", least=0, most=2**63 - 1),
    Parameter("cells", 4, "Watts-Strogatz cells; each halves the image and doubles the channels", most=16),
    Parameter("cell_nodes", 32, "nodes of a cell", most=512),
    Parameter("neighbours", 4, "neighbours of a node before rewiring, an even number", least=2, most=510),
    Parameter("base_channels", 78, "channels of the first cell"),
    Parameter("fused", 2, "2: sum, ReLU, convolution and batch norm are one node; 1: all but the sum; 0: none", 0, 2),
)
_TRANSFORMER_PARAMETERS = (
    Parameter("sequence", 1024, "tokens of one sample"),
    Parameter("layers", 12, "blocks of attention and perceptron", most=4096),
    Parameter("width", 768, "channels of every position"),
    Parameter("heads", 12, "heads of each attention; they divide the width"),
    Parameter("vocabulary", 50257, "tokens there are, each scored at every position", most=2**24),
)

NETWORKS: Mapping[str, Architecture] = {
    entry.name: entry
    for entry in (
        Architecture("vgg16", "VGG16", _VGG, _IMAGE, _LABELS, architectures.vgg16),
        Architecture("vgg19", "VGG19", _VGG, _IMAGE, _LABELS, architectures.vgg19),
        Architecture("resnet50", "ResNet50", _RESNET, _IMAGE, _LABELS, architectures.resnet50),
        Architecture("resnet101", "ResNet101", _RESNET, _IMAGE, _LABELS, architectures.resnet101),
        Architecture("resnet152", "ResNet152", _RESNET, _IMAGE, _LABELS, architectures.resnet152),
        Architecture("mobilenet", "MobileNet", "Howard et al., 2017", _IMAGE, _LABELS, architectures.mobilenet),
        Architecture("densenet121", "DenseNet121", _DENSENET, _IMAGE, _LABELS, architectures.densenet121),
        Architecture("densenet161", "DenseNet161", _DENSENET, _IMAGE, _LABELS, architectures.densenet161),
        Architecture("densenet169", "DenseNet169", _DENSENET, _IMAGE, _LABELS, architectures.densenet169),
        Architecture("densenet201", "DenseNet201", _DENSENET, _IMAGE, _LABELS, architectures.densenet201),
        Architecture(
            "nasnet-mobile", "NASNet-A (4 @ 1056)", _NASNET, _IMAGE, _SEARCHED, _fusible(architectures.nasnet_mobile)
        ),
        Architecture(
            "nasnet-large",
            "NASNet-A (6 @ 4032)",
            _NASNET,
            _LARGE_IMAGE,
            _SEARCHED,
            _fusible(architectures.nasnet_large),
        ),
        Architecture(
            "pnasnet5-mobile", "PNASNet-5 mobile", _PNASNET, _IMAGE, _SEARCHED, _fusible(architectures.pnasnet5_mobile)
        ),
        Architecture(
            "pnasnet5-large",
            "PNASNet-5 large",
            _PNASNET,
            _LARGE_IMAGE,
            _SEARCHED,
            _fusible(architectures.pnasnet5_large),
        ),
        Architecture("randwire", "RandWire", "Xie et al., ICCV 2019", _IMAGE, _RANDWIRE_PARAMETERS, _randwire),
        Architecture("fcn8", "FCN8 on VGG16", "Long et al., CVPR 2015", _STREET, (_classes(19),), architectures.fcn8),
        Architecture(
            "unet", "U-Net", "Ronneberger et al., MICCAI 2015", (256, 256, 3), _UNET_PARAMETERS, architectures.unet
        ),
        Architecture(
            "segnet", "SegNet", "Badrinarayanan et al., TPAMI 2017", _STREET, (_classes(19),), architectures.segnet
        ),
        Architecture(
            "transformer",
            "transformer decoder, a causal language model; default: GPT-2 small",
            "Vaswani et al., NIPS 2017; Radford et al., 2019",
            None,
            _TRANSFORMER_PARAMETERS,
            architectures.transformer_decoder,
        ),
    )
}
"""The networks by name."""
