"""Training steps side by side: without a plan, and with one; everything that they leave behind is compared."""

from __future__ import annotations

import copy
import gc
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from moccasin_mzn.pytorch import plan
from moccasin_mzn.pytorch.measuring import allocator_peak, storage_peak
from moccasin_mzn.pytorch.measuring import backward as seeded

QUICK = {"search": "only", "time_limit": 30.0, "until_gap": 0.9, "seed": 0, "threads": 1}
"""Options of a search that ends with the first schedule that it finds."""


def made(factory: Any, seed: int = 0) -> tuple[torch.nn.Module, list[Any]]:
    torch.manual_seed(seed)
    return factory()


def planned(model: torch.nn.Module, inputs: Any, budget: float, **options: Any) -> Any:
    """A plan for loops that differentiate all outputs, as `backward` does."""
    return plan(model, inputs, budget=budget, **{"differentiate": "all", **QUICK, **options})


def backward(outputs: Any) -> None:
    """As somebody's own loop does it: gradients of the outputs are random, laid out as these."""
    tensors = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    generator = torch.Generator().manual_seed(9)
    seeded(tensors, lambda each: torch.empty_like(each).copy_(torch.randn(each.shape, generator=generator)))


def steps(model: torch.nn.Module, call: Any, inputs: Any, count: int = 3) -> list[Any]:
    """Some steps of an optimizer: outputs, gradients, parameters, buffers after each, and the random state."""
    torch.manual_seed(7)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
    found: list[Any] = []
    for _ in range(count):
        optimizer.zero_grad(set_to_none=True)
        for leaf in tree_leaves(inputs):
            if isinstance(leaf, torch.Tensor):
                leaf.grad = None
        outputs = call(*inputs)
        backward(outputs)
        optimizer.step()
        found += [leaf.detach().clone() for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
        leaves = [*model.parameters(), *(leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor))]
        found += [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves]
        found += [value.clone() for value in model.state_dict().values()]
    return [*found, torch.get_rng_state()]


def same(one: list[Any], other: list[Any]) -> bool:
    """Equal bit for bit, but for the sign of zero and that no number is equal to itself."""
    return len(one) == len(other) and all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(one, other, strict=True)
    )


def twin(model: torch.nn.Module, inputs: Any) -> tuple[torch.nn.Module, Any]:
    """A copy, to run without the plan."""
    fresh = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs]
    return copy.deepcopy(model), fresh


def excess(found: Any, call: Any, inputs: Any) -> tuple[int, int]:
    """Peaks of storages and at the allocator, measured minus predicted, in bytes; the gradients of the outputs come
    from here, and count.
    """
    model = found.traced.step.model
    joint = found.traced.joint

    def without_gradients() -> None:
        for leaf in (*model.parameters(), *(leaf for leaf in inputs if isinstance(leaf, torch.Tensor))):
            leaf.grad = None
        gc.collect()

    def step() -> None:
        outputs = joint.returned.of(call(*inputs))[1]
        chosen = [output for output, has in zip(outputs, joint.differentiable, strict=True) if has]
        seeded(chosen, torch.ones_like)

    without_gradients()
    storages = storage_peak(step)
    without_gradients()
    return storages - found.predicted_storage_peak, allocator_peak(step) - found.predicted_peak
