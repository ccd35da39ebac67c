"""Checkpoints in a network: their functions are called plainly, since what is recomputed is for the plan to choose.

Networks hold `torch.utils.checkpoint.checkpoint` under names of their own, so what it calls is replaced, not itself:
the function of autograd of reentrant checkpoints, and the generator that surrounds the others. ::

    checkpoint(function, x)                         while a step is traced
        generator: hooks that save no tensors           nothing
        function(x)                                      function(x)
        generator: hooks end                             nothing

Neither is a documented name, so both are sought where `checkpoint` calls them and tried out before the first trace; and
while a step is traced nothing may save tensors by hooks, which is how any other checkpoint would work.

What a checkpoint has called is marked in the trace, so that a plan can begin with what the network itself recomputes.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING
from unittest import mock

from moccasin_mzn.pytorch.devices import autocast_cache
from moccasin_mzn.pytorch.errors import PlanError, UntraceableError

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree


CHECKPOINT = "moccasin_checkpoint"
"""Key in a traced node's `meta`: the number of the outermost checkpoint that it was called in."""
_HOOKS = "a step that is planned saves tensors by hooks"
"""PyTorch's message where hooks are forbidden."""


@contextlib.contextmanager
def plain_checkpoints() -> Iterator[None]:
    """Meanwhile `torch.utils.checkpoint` calls what it is given, and does nothing else.

    Raises:
        PlanError: this release of PyTorch has checkpoints of a kind that is not known here, or the network saves
            tensors by hooks, such as `torch.autograd.graph.save_on_cpu` or checkpoints of another library.
    """
    import torch

    with _replaced(_generator()), torch.autograd.graph.disable_saved_tensors_hooks(_HOOKS):
        try:
            yield
        except RuntimeError as error:
            if _HOOKS not in str(error):
                raise
            text = "such as save_on_cpu or checkpoints of another library"
            raise UntraceableError(
                f"the network saves tensors by hooks ({text}), which a plan would not call: take them out"
            ) from error


@contextlib.contextmanager
def _replaced(generator: str) -> Iterator[None]:
    import torch
    from torch.utils import checkpoint

    numbers = itertools.count()

    class Plainly:
        @staticmethod
        def apply(function: Callable[..., PyTree], preserve: bool, *args: PyTree) -> PyTree:
            with _marked(next(numbers)), autocast_cache(torch.is_autocast_cache_enabled()):  # as it recomputes it
                return function(*args)

    def around(*args: object, **kwargs: object) -> Iterator[None]:
        with _marked(next(numbers)):
            yield

    with mock.patch.object(checkpoint, "CheckpointFunction", Plainly), mock.patch.object(checkpoint, generator, around):
        yield


@contextlib.contextmanager
def _marked(number: int) -> Iterator[None]:
    """Mark what is traced meanwhile, if anything is."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    before = None if mode is None else next(iter(reversed(mode.tracer.graph.nodes)), None)
    yield
    if mode is not None:
        for node in itertools.takewhile(lambda node: node is not before, reversed(mode.tracer.graph.nodes)):
            node.meta[CHECKPOINT] = number


@cache
def _generator() -> str:
    """The name of the generator around the functions of checkpoints that are not reentrant, found and tried out."""
    import torch
    from torch.utils import checkpoint

    caller = getattr(checkpoint, "_checkpoint_impl", inspect.unwrap(checkpoint.checkpoint))
    called = caller.__code__.co_names
    names = [name for name in called if inspect.isgeneratorfunction(getattr(checkpoint, name, None))]
    if len(names) != 1 or "CheckpointFunction" not in called or not _is_plain(names[0]):
        raise PlanError(
            f"PyTorch {torch.__version__} computes checkpoints in a way that is not known here: "
            "take a release that the page on training names"
        )
    return names[0]


def _is_plain(generator: str) -> bool:
    """True if both kinds of checkpoints, with what they call replaced, do nothing but call their functions."""
    import torch
    from torch.utils.checkpoint import checkpoint

    call = inspect.unwrap(checkpoint)  # what it is wrapped in imports much
    calls: list[torch.Tensor] = []

    def double(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return x * 2

    given = torch.ones((), requires_grad=True)
    with _replaced(generator), torch.autograd.graph.disable_saved_tensors_hooks(_HOOKS), torch.enable_grad():
        try:
            made = [call(double, given, use_reentrant=kind) for kind in (False, True)]
        except Exception:  # whatever an unknown release makes of it
            return False
        plain = type((given * 2).grad_fn)
    return len(calls) == 2 and all(each is given for each in calls) and all(type(x.grad_fn) is plain for x in made)
