"""What a network of the catalogue is: a builder of layers, and what can be chosen about it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.generators.network import Network

IMAGE = (224, 224, 3)
"""The usual input: height, width and channels."""
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
                raise InputError(f"{self.name}: {unknown('parameter', name, known)}")
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
            names = ", ".join(parameter.name for parameter in self.parameters)
            raise InputError(f"{self.name}: takes no image; its input is given by parameters: {names}")
        if len(input) != 3:
            raise InputError(f"{self.name}: the input is {shown(input)}, expected height, width and channels")
        for what, value in zip(("height", "width", "channels"), input, strict=True):
            if type(value) is not int or not 1 <= value <= _LARGEST:
                raise InputError(f"{self.name}: {what} is {shown(value)}, expected an integer from 1 to {_LARGEST}")
        return input[0], input[1], input[2]


def unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    """What to say of a name that nobody knows."""
    near = difflib.get_close_matches(str(name).lower(), known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"there is no {what} {shown(name)}{hint}; there are {', '.join(known)}"


def classes(default: int) -> Parameter:
    """The parameter of networks that tell classes apart."""
    return Parameter("classes", default, "classes told apart")


LABELS = (classes(1000),)
"""The parameters of most networks for ImageNet."""
_FUSED = Parameter("fused", 1, "1: ReLU, convolution and batch norm are one node; 0: three", least=0, most=1)
SEARCHED = (*LABELS, _FUSED)
"""The parameters of networks of separable convolutions."""
