"""What real runs allocate, independent of the importer: storages of what operators return, seen at dispatch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Storages(TorchDispatchMode):
    """Counts the bytes of every new storage that an operator returns, once; keeps all, so that no address returns."""

    def __init__(self, known: Any) -> None:
        super().__init__()
        self.total = 0
        self.kept: dict[int, Any] = {}
        for tensor in tree_leaves(known):
            if isinstance(tensor, torch.Tensor):
                self._storage(tensor)
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(outputs):
            if isinstance(tensor, torch.Tensor):
                self._storage(tensor)
        return outputs

    def _storage(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in self.kept:
            self.kept[storage.data_ptr()] = storage
            self.total += storage.nbytes()


def real_bytes(network: torch.nn.Module, *inputs: torch.Tensor, training: bool = False, **named: torch.Tensor) -> int:
    """Bytes of all storages made by a real eager run: forward, or forward, sum of the outputs and backward."""
    network.train(training)
    known = [list(network.parameters()), list(network.buffers()), inputs, named]
    with torch.set_grad_enabled(training), Storages(known) as storages:
        outputs = network(*inputs, **named)
        if training:
            tensors = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            loss = tensors[0]
            if loss.dim():
                loss = loss.sum()
                for tensor in tensors[1:]:
                    loss = loss + tensor.sum()
            loss.backward()
    return storages.total


def traced_bytes(trace: Any) -> int:
    """Bytes of all storages made by a real run of a traced program, tensors of zeros for all it takes."""
    nodes = trace.graph_module.graph.nodes
    values = [node.meta["val"] for node in nodes if node.op == "placeholder"]
    tensors = [torch.zeros(value.shape, dtype=value.dtype).as_strided(value.shape, value.stride()) for value in values]
    with torch.no_grad(), Storages(tensors) as storages:
        torch.fx.Interpreter(trace.graph_module).run(*tensors)
    return storages.total
