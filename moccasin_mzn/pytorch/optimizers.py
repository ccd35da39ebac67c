"""Optimizers of any kind on other parameters, with their settings as they are, but a state of their own."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import nearest

if TYPE_CHECKING:
    import torch

    Parameters: TypeAlias = Mapping[torch.nn.Parameter, torch.nn.Parameter]
    Maker: TypeAlias = Callable[[Parameters], torch.optim.Optimizer]
    Chosen: TypeAlias = str | torch.optim.Optimizer | Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer] | None

MOMENTUM = "momentum"
"""The name of SGD with momentum."""


def maker_of(optimizer: Chosen, together: bool) -> Maker | None:
    """What makes such an optimizer for parameters that stand for others; None: no optimizer.

    Args:
        optimizer: a name such as "adamw", a class or another function of parameters, or an optimizer of a network.
        together: update all parameters together, as PyTorch's optimizers do on CUDA by default.

    Raises:
        InputError: it is not one of these.
    """
    import torch

    if optimizer is None:
        return None
    if isinstance(optimizer, torch.optim.Optimizer):
        return partial(_like, optimizer, together)
    made = _by_name(optimizer) if isinstance(optimizer, str) else optimizer
    if not callable(made):
        raise InputError(f"optimizer {shown(optimizer)}: expected a name, a class, or an optimizer")
    return partial(_new, made, together)


def name_of(optimizer: Chosen) -> str:
    """The name of an optimizer for people; "" of none."""
    import torch

    if optimizer is None or isinstance(optimizer, str):
        return optimizer or ""
    if isinstance(optimizer, torch.optim.Optimizer):
        return type(optimizer).__name__
    return str(getattr(getattr(optimizer, "func", optimizer), "__name__", optimizer))


def _by_name(name: str) -> Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]:
    import torch

    classes = {key.lower(): each for key, each in vars(torch.optim).items() if isinstance(each, type)}
    classes.pop("optimizer", None)
    known: dict[str, Any] = {**classes, MOMENTUM: partial(torch.optim.SGD, momentum=0.9)}
    if name.lower() not in known:
        raise InputError(f"optimizer {shown(name)}: torch.optim has none of this name{nearest(name.lower(), known)}")
    return known[name.lower()]


def _new(
    made: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer], together: bool, parameters: Parameters
) -> torch.optim.Optimizer:
    optimizer = made([each for each in parameters.values() if each.requires_grad])
    return _together(optimizer) if together else optimizer


def _like(optimizer: torch.optim.Optimizer, together: bool, parameters: Parameters) -> torch.optim.Optimizer:
    """The same with other parameters, without a state, without hooks, and without what schedulers do to its step."""
    other = [each for group in optimizer.param_groups for each in group["params"] if each not in parameters]
    if other:
        raise InputError(f"the optimizer is of another network: a parameter of {list(other[0].shape)} is none of this")
    like = object.__new__(type(optimizer))
    like.__dict__.update(optimizer.__dict__)
    like.__dict__.pop("step", None)
    for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        like.__dict__[name] = OrderedDict()
    like.state = defaultdict(dict)
    like.param_groups = [
        {**group, "params": [parameters[each] for each in group["params"]]} for group in optimizer.param_groups
    ]
    return _together(like) if together else like


def _together(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    for group in optimizer.param_groups:
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True
    return optimizer
