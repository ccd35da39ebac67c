"""What differs between devices: random numbers, how their allocators round, recurrent layers; numbers drawn once."""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from moccasin_mzn.graphs.importers.torch.nodes import schema_of
from moccasin_mzn.graphs.importers.torch.spec import line_here
from moccasin_mzn.pytorch.errors import UntraceableError

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.utils._pytree import PyTree


CPU, CUDA = "cpu", "cuda"
_BLOCK = 512
"""Bytes: the allocator of CUDA gives out multiples of it."""


def kind_of_device(device: str) -> str:
    """The kind of the device, without its index."""
    return device.partition(":")[0]


def device_of(node: fx.Node) -> str:
    """Where a traced node computes: the device of the first tensor that it gives or reads, else the CPU."""
    import torch
    from torch.utils._pytree import tree_leaves

    values = [node.meta.get("val"), *(read.meta.get("val") for read in node.all_input_nodes)]
    return next((str(leaf.device) for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)), CPU)


def given_out(size: int, device: str) -> int:
    """Bytes that the allocator of a device gives out for a request of that number."""
    return -(-size // _BLOCK) * _BLOCK if kind_of_device(device) == CUDA else size


def generator_of(device: str) -> torch.Generator:
    """Where operators draw from by default on a device."""
    import torch

    if kind_of_device(device) != CUDA:
        return torch.default_generator
    number = torch.device(device).index
    generators: Sequence[torch.Generator] = torch.cuda.default_generators
    return generators[torch.cuda.current_device() if number is None else number]


@contextlib.contextmanager
def forked_random_state() -> Iterator[None]:
    """Puts the random state of every device back."""
    import torch

    used = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=used):
        yield


@contextlib.contextmanager
def no_autocast() -> Iterator[None]:
    """Switch autocast off, as it is outside of its context, where the backward pass runs."""
    import torch

    with contextlib.ExitStack() as stack:
        for device in (CPU, CUDA):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@contextlib.contextmanager
def autocast_cache(enabled: bool) -> Iterator[None]:
    """Meanwhile autocast keeps the weights that it has cast, or does not, and begins and ends with none of them.

    Tracing switches this off; but a weight that is read twice is then cast twice, and its gradient is added up in the
    other precision.
    """
    import torch

    before = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(enabled)
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        torch.set_autocast_cache_enabled(before)


def is_kept_by_autocast(tensor: torch.Tensor) -> bool:
    """Return whether autocast casts a tensor once only, however often it is read: it keeps the casts of leaves."""
    import torch

    return tensor.dtype == torch.float32 and tensor.requires_grad and tensor.is_leaf and not tensor._is_view()


def likewise_kept(tensor: torch.Tensor, copied: torch.Tensor) -> torch.Tensor:
    """A leaf of a copy of a tensor, whose casts autocast keeps if it keeps those of the tensor itself."""
    leaf = copied if is_kept_by_autocast(tensor) or not tensor.requires_grad else copied.view_as(copied)
    return leaf.requires_grad_(tensor.requires_grad)


Ran = TypeVar("Ran")


@contextlib.contextmanager
def none_drawn_by_python(network: torch.nn.Module, run: Callable[[], Ran]) -> Iterator[Callable[[], Ran]]:
    """Refuse a network that draws numbers by Python's `random` or by numpy's: a plan would use the same ones always.

    Raises:
        UntraceableError: it does; names the line.
    """
    before = _python_state()
    try:
        yield run
        if _python_state() == before:
            return
        _set_python_state(before)
        place = _drawing_line(network, run)
        raise UntraceableError(
            f"the network draws numbers by Python's random or by numpy's, which a plan cannot draw again: {place}; "
            "draw them by PyTorch, or switch it off, such as layerdrop=0"
        )
    finally:
        _set_python_state(before)


@contextlib.contextmanager
def forked_python_state() -> Iterator[None]:
    """Puts the state of Python's `random` and of numpy's back."""
    before = _python_state()
    try:
        yield
    finally:
        _set_python_state(before)


_PythonState = tuple[object, bytes]


def _python_state() -> _PythonState:
    return random.getstate(), pickle.dumps(np.random.get_state())  # which np.random.rand and others draw from


def _set_python_state(state: _PythonState) -> None:
    random.setstate(state[0])  # type: ignore[arg-type]  # as `getstate` gave it
    np.random.set_state(pickle.loads(state[1]))


def _drawing_line(network: torch.nn.Module, run: Callable[[], object]) -> str:
    """The user's line that draws first, or the next one that calls anything, found by running once more."""
    found: list[str] = []
    before = _python_state()

    def look(frame: FrameType, _event: str, _called: object) -> None:
        if not found and _python_state() != before:
            found.append(line_here(network, frame))

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found[0] if found and found[0] else "the line is not known"


# --- Random numbers drawn once: what is recomputed draws what it drew before, and the stream goes on as
# it would


def draws(node: fx.Node) -> bool:
    """True if an operator takes random numbers."""
    import torch

    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags:
        return False
    schema = schema_of(node)
    at = [argument.name for argument in schema.arguments].index("dropout_p") if "dropout_p" in str(schema) else -1
    if at < 0:
        return True
    share = node.args[at] if at < len(node.args) else node.kwargs.get("dropout_p", 0.0)
    return bool(share)


def communicates(node: fx.Node) -> bool:
    """True if an operator exchanges values with other processes, which call as many in the same order."""
    return str(getattr(node.target, "namespace", "")).startswith("_c10d_functional")


def takes_generator(node: fx.Node) -> bool:
    """True if an operator accepts a generator."""
    return any(argument.name == "generator" for argument in schema_of(node).arguments)


def state_now(device: str) -> torch.Generator:
    """A copy of the generator that operators draw from by default."""
    return generator_of(device).clone_state()


def state_tensor(device: str) -> torch.Tensor:
    """The state of that generator, as a tensor: it takes memory, but may be handed on wherever tensors may."""
    return generator_of(device).get_state()


def state_bytes(device: str) -> int:
    """What a state as a tensor takes of the device's memory: that of a GPU is a tensor of the CPU."""
    return generator_of(device).get_state().nbytes if device == CPU else 0


def like_state(fake: torch.Tensor, device: str) -> torch.Tensor:
    """What a state is like as a tensor, made as another fake tensor was."""
    import torch

    return fake.new_empty([generator_of(device).get_state().numel()], dtype=torch.uint8, device=CPU)


def copy_of(state: torch.Generator | torch.Tensor, device: str) -> torch.Generator:
    """A generator that gives the numbers that followed a state; the state is not changed."""
    import torch

    return torch.Generator(device).set_state(state) if isinstance(state, torch.Tensor) else state.clone_state()


def replayed(
    state: torch.Generator | torch.Tensor,
    device: str,
    operator: Callable[..., PyTree],
    /,
    *args: PyTree,
    **kwargs: PyTree,
) -> PyTree:
    """Call an operator that has no argument for a generator as if the default generator were in a state.

    It takes the memory of a state, as a tensor, at its beginning and at its end.
    """
    import torch

    generator = generator_of(device)
    before = generator.clone_state()
    generator.set_state(state if isinstance(state, torch.Tensor) else state.get_state())
    try:
        return operator(*args, **kwargs)
    finally:
        generator.set_state(before.get_state())


# --- Recurrent layers: where a library computes a layer as one operator, a plan has its cells -------------------------


LIBRARIES = {CPU: ("mkldnn", "oneDNN"), CUDA: ("cudnn", "cuDNN")}
"""By device what computes recurrent layers: its name in `torch.backends`, and for people."""


@dataclass
class RecurrentCells:
    """What tracing has met of recurrent layers."""

    devices: set[str] = field(default_factory=set)
    """Where there are layers that a library computes as one operator, if it is on."""


def is_on(device: str) -> bool:
    """Is the library of recurrent layers on?"""
    import torch

    return bool(getattr(torch.backends, LIBRARIES[device][0]).enabled)


def switch_text(device: str) -> str:
    """How to have recurrent layers computed by cells, as in a plan, which is what they differ from by rounding."""
    name, title = LIBRARIES[device]
    return (
        f"{title} computes a recurrent layer as one operator, and a plan by cells, which differ by rounding: make the "
        f"plan and train within torch.backends.{name}.flags(enabled=False)"
        + (", or by run torch --no-onednn" if device == CPU else "")
    )


@contextlib.contextmanager
def recurrent_cells(network: torch.nn.Module | None = None) -> Iterator[RecurrentCells]:
    """Trace recurrent layers as cells meanwhile, instead of as one operator of oneDNN or cuDNN.

    A trace does not show what such an operator keeps for the backward pass, and cannot repeat its dropout.

    Args:
        network: its plan is to compute what its own step does; None: what is computed is of no meaning.

    Raises:
        UntraceableError: a layer of the network would be one operator, as PyTorch is set.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    layers = {getattr(torch, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
    on = {device for device in LIBRARIES if network is not None and is_on(device)}
    found = RecurrentCells()

    class OnDevice(TorchFunctionMode):
        def __torch_function__(
            self, function: Callable[..., PyTree], types: object, args: PyTree = (), kwargs: PyTree = None
        ) -> PyTree:
            if function not in layers:
                return function(*args, **(kwargs or {}))
            device = kind_of_device(str(args[0].device))
            if device == CUDA or (device == CPU and function is torch.lstm and _is_for_onednn(*args)):
                found.devices.add(device)
                if network is not None and device in on:
                    raise UntraceableError(f"{_layer_text(network)}: {switch_text(device)}")
            with torch.backends.cudnn.flags(enabled=False), torch.backends.mkldnn.flags(enabled=False):
                return function(*args, **(kwargs or {}))

    with OnDevice():
        yield found


def _is_for_onednn(data: torch.Tensor, states: PyTree, *_: PyTree) -> bool:
    """Can oneDNN compute an LSTM of these arguments? Not one of packed sequences or with projections."""
    import torch

    if isinstance(states, torch.Tensor) or data.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return False
    return bool(states[0].shape[-1] == states[1].shape[-1])


def _layer_text(network: torch.nn.Module) -> str:
    """The recurrent layer that is being called, by name, and the user's line."""
    import torch

    names = {id(module): name for name, module in network.named_modules()}
    callers = (frame.f_locals.get("self") for frame, _ in traceback.walk_stack(None))
    layers = (names.get(id(each)) for each in callers if isinstance(each, torch.nn.Module))
    name, place = next(filter(None, layers), ""), line_here(network)
    return " at ".join(filter(None, (f"recurrent layer '{name}'" if name else "a recurrent layer", place)))
