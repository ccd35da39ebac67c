"""What a planned step is called with and gives back: tensors in a flat row, everything else as it was. ::

step(x, mask=None, scale=2.0)  --->  tensors [x], the rest {mask: None, scale: 2.0} as it was when planned
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.pytorch.errors import PlanError
from moccasin_mzn.pytorch.objects import opened

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree, TreeSpec


@dataclass(frozen=True)
class Form:
    """A tensor without its values."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    """As PyTorch names it, without "torch."."""
    device: str
    requires_grad: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Form:
        dtype = str(tensor.dtype).removeprefix("torch.")
        return cls(tuple(tensor.shape), tuple(tensor.stride()), dtype, str(tensor.device), tensor.requires_grad)

    def empty(self) -> torch.Tensor:
        """A tensor of this form, in the mode of fake tensors that is on."""
        import torch

        device = "cpu" if self.device == "meta" else self.device
        made = torch.empty_strided(self.shape, self.stride, dtype=getattr(torch, self.dtype), device=device)
        return made.requires_grad_(self.requires_grad)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Structure:
    """Arguments or outputs: where the tensors are, and all else."""

    tree: TreeSpec
    rest: tuple[object, ...]
    """The leaves; tensors are `TENSOR`."""

    @classmethod
    def of(cls, value: PyTree) -> tuple[Structure, list[torch.Tensor]]:
        """The structure of a value, and its tensors in their order."""
        import torch
        from torch.utils._pytree import tree_flatten

        leaves, tree = tree_flatten(opened(value))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return cls(tree, tuple(TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)), tensors

    @classmethod
    def of_call(
        cls, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree] | None
    ) -> tuple[Structure, list[torch.Tensor]]:
        """The structure of a call's arguments as a pair, positional and by name, and its tensors in their order.

        Raises:
            InputError: the inputs are no sequence, but a tensor, whose rows would be taken for inputs; or one is an
                array of numpy.
        """
        import torch

        if isinstance(inputs, torch.Tensor):
            raise InputError("the inputs are a tensor, expected a sequence of all that is passed: (x,)")
        structure, tensors = cls.of((tuple(inputs), dict(kwargs or {})))
        if any(isinstance(leaf, np.ndarray) for leaf in structure.rest):
            raise InputError("an input is a numpy array, expected a tensor: torch.from_numpy makes one")
        return structure, tensors

    def filled(self, tensors: Sequence[torch.Tensor]) -> PyTree:
        """The value with these tensors in it."""
        from torch.utils._pytree import tree_unflatten

        waiting = iter(tensors)
        return tree_unflatten([next(waiting) if leaf is TENSOR else leaf for leaf in self.rest], self.tree)

    def matches(self, other: Structure) -> bool:
        """True if all that is no tensor is the same."""
        return self.tree == other.tree and all(
            mine is its or (type(mine) is type(its) and mine == its)
            for mine, its in zip(self.rest, other.rest, strict=True)
        )


class _Tensor:
    def __repr__(self) -> str:
        return "a tensor"


TENSOR = _Tensor()


@dataclass(frozen=True)
class Step:
    """What is planned: a network, or a network and its loss, of the outputs alone or also of the target."""

    model: torch.nn.Module
    loss: Callable[..., PyTree] | None = None

    def __post_init__(self) -> None:
        import torch

        if not isinstance(self.model, torch.nn.Module):
            raise InputError(f"the network is {shown(self.model)}, expected a torch.nn.Module")
        if hasattr(self.model, "_orig_mod") or getattr(self.model, "_compiled_call_impl", None) is not None:
            raise InputError(
                "the network is compiled by torch.compile: give the network itself, or compile it with "
                "moccasin_mzn.pytorch.backend"
            )
        if isinstance(self.loss, type):
            name = self.loss.__name__
            raise InputError(f"the loss is the class {name}, expected a function or an instance: {name}()")
        if self.loss is not None and not callable(self.loss):
            raise InputError(f"the loss is {shown(self.loss)}, expected a function of outputs and a target")

    @cached_property
    def takes_target(self) -> bool:
        """True if the last input is a target for the loss; False: there is no loss, or one of the outputs alone."""
        if self.loss is None:
            return False
        try:
            signature = inspect.signature(getattr(self.loss, "forward", self.loss))
            signature.bind(None)
        except TypeError:
            return True  # a second argument is needed
        except ValueError:
            return True  # nothing is known of it
        return len(signature.parameters) > 1 and "target" in signature.parameters

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        if self.loss is None:
            return self.model(*args, **kwargs)
        if not self.takes_target:
            return self.loss(self.model(*args, **kwargs))
        if not args:
            raise PlanError("a plan with a loss takes the target as the last of its inputs")
        return self.loss(self.model(*args[:-1], **kwargs), args[-1])


def misfit(step: Step, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> str | None:
    """The message for a call that the network's `forward` has no such arguments for; None: it has, or that is open."""
    positional = args[:-1] if step.takes_target else args
    try:
        inspect.signature(step.model.forward).bind(*positional, **kwargs)
    except TypeError as error:
        hint = "a target needs a loss" if not step.takes_target else "the last one is the target, for the loss"
        return f"the network cannot be called with these inputs, {error}; {hint}"
    except ValueError:  # it has no signature
        pass
    return None


def output_names(value: PyTree) -> list[str]:
    """A name for each tensor among outputs: its place, such as "loss", "hidden_states.0" or "" for the only one."""
    import torch
    from torch.utils._pytree import tree_flatten_with_path, tree_leaves

    try:
        leaves, _ = tree_flatten_with_path(opened(value))
    except ValueError:  # a class whose parts PyTorch knows, but not their names
        if isinstance(value, Mapping):
            return [".".join(filter(None, (str(key), name))) for key in value for name in output_names(value[key])]
        return [str(at) for at, leaf in enumerate(tree_leaves(opened(value))) if isinstance(leaf, torch.Tensor)]
    return [
        ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", "")))) for key in path)
        for path, leaf in leaves
        if isinstance(leaf, torch.Tensor)
    ]


def argument_names(args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> list[str]:
    """A name for each tensor among the arguments, for messages."""
    found = []
    for name, value in [*((f"input {at}", value) for at, value in enumerate(args)), *kwargs.items()]:
        tensors = Structure.of(value)[1]
        found += [name] if len(tensors) == 1 else [f"{name}[{at}]" for at in range(len(tensors))]
    return found
