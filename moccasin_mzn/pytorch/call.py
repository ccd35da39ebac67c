"""What a planned step is called with and gives back: tensors in a flat row, everything else as it was. ::

step(x, mask=None, scale=2.0)  --->  tensors [x], the rest {mask: None, scale: 2.0} as it was when planned
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moccasin_mzn.pytorch.refusal import PlanError

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import TreeSpec


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
    rest: tuple[Any, ...]
    """The leaves; tensors are `TENSOR`."""

    @classmethod
    def of(cls, value: Any) -> tuple[Structure, list[torch.Tensor]]:
        """The structure of a value, and its tensors in their order."""
        import torch
        from torch.utils._pytree import tree_flatten

        leaves, tree = tree_flatten(value)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return cls(tree, tuple(TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)), tensors

    def filled(self, tensors: Sequence[Any]) -> Any:
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
    """What is planned: a network, or a network and its loss, of which the last argument is the target."""

    model: torch.nn.Module
    loss: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.loss is None:
            return self.model(*args, **kwargs)
        if not args:
            raise PlanError("a plan with a loss takes the target as the last of its inputs")
        return self.loss(self.model(*args[:-1], **kwargs), args[-1])


def argument_names(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """A name for each tensor among the arguments, for messages."""
    found = []
    for name, value in [*((f"input {at}", value) for at, value in enumerate(args)), *kwargs.items()]:
        tensors = Structure.of(value)[1]
        found += [name] if len(tensors) == 1 else [f"{name}[{at}]" for at in range(len(tensors))]
    return found
