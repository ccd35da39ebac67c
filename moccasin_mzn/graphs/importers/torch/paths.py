"""Which module of a network a traced operator belongs to, in the forward pass and in the backward pass."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import fx


PATH = "moccasin_path"
"""Key in a traced node's `meta`: the path of the module, such as "layer1.0.conv1"; empty outside of modules."""


def traced_so_far() -> fx.Graph:
    """The graph that `make_fx` is tracing just now."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    assert mode is not None
    return mode.tracer.graph


def mark_path(path: str) -> None:
    """Note that the nodes traced since the latest call belong to the module at `path`."""
    for node in reversed(traced_so_far().nodes):
        if PATH in node.meta:
            break
        node.meta[PATH] = path


class Paths:
    """Marks what is traced while a network runs, and while its gradients are computed. ::

    with paths.forward():
        loss = network(x).sum()
    with paths.backward(loss):
        torch.autograd.grad(loss, parameters)
    """

    def __init__(self, network: torch.nn.Module, mark: Callable[[str], None] = mark_path) -> None:
        """`mark` notes that what was called since its latest call belongs to the module at a path."""
        self._mark = mark
        self._paths = {id(module): path for path, module in network.named_modules()}
        self._stack = [""]
        self._ends: list[int] = []
        """Autograd numbers its nodes as they are made: at what number each stretch of the forward pass ended."""
        self._of: list[str] = []
        """The path of each stretch."""

    @contextlib.contextmanager
    def forward(self) -> Iterator[None]:
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        def enter(module: object, _: object) -> None:
            self._end_stretch()
            self._stack.append(self._paths.get(id(module), self._stack[-1]))

        def leave(_module: object, _inputs: object, _outputs: object) -> None:
            self._end_stretch()
            self._stack.pop()

        hooks = register_module_forward_pre_hook(enter), register_module_forward_hook(leave)
        try:
            yield
            self._end_stretch()
        finally:
            for hook in hooks:
                hook.remove()

    @contextlib.contextmanager
    def backward(self, loss: torch.Tensor) -> Iterator[None]:
        """An operator of the backward pass belongs to the module whose operator it is the gradient of."""
        self._mark("")
        current = [""]
        hooks = []
        for node in _autograd_nodes(loss):
            at = bisect_right(self._ends, node._sequence_nr())
            path = self._of[at] if at < len(self._of) else ""

            def begin(_: object, path: str = path) -> None:
                self._mark(current[0])
                current[0] = path

            hooks.append(node.register_prehook(begin))
        try:
            yield
            self._mark(current[0])
        finally:
            for hook in hooks:
                hook.remove()

    def _end_stretch(self) -> None:
        import torch

        self._mark(self._stack[-1])
        self._ends.append(torch.autograd._get_sequence_nr())
        self._of.append(self._stack[-1])


def _autograd_nodes(loss: torch.Tensor) -> list[torch.autograd.graph.Node]:
    found: dict[torch.autograd.graph.Node, None] = {}
    waiting = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found[node] = None
            waiting.extend(following for following, _ in node.next_functions)
    return list(found)
