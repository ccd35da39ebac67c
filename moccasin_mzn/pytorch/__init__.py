"""Plans that run: train a PyTorch network within a memory budget. ::

from moccasin_mzn.pytorch import plan

found = plan(model, (x, y), loss=cross_entropy, budget="8GiB")
step = found.module()
loss = step(x, y)
loss.backward()  # gradients as without the plan, bit for bit
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moccasin_mzn.pytorch.batches import LargestBatch, largest_batch
    from moccasin_mzn.pytorch.compiling import backend
    from moccasin_mzn.pytorch.errors import NoPlanError, PlanError
    from moccasin_mzn.pytorch.estimating import Estimate, estimate
    from moccasin_mzn.pytorch.integrations import Plans
    from moccasin_mzn.pytorch.packing import knapsack
    from moccasin_mzn.pytorch.planning import plan
    from moccasin_mzn.pytorch.plans import Plan
    from moccasin_mzn.pytorch.regions import RegionPlan
    from moccasin_mzn.pytorch.steps import Verification

__all__ = [
    "Estimate", "LargestBatch", "NoPlanError", "Plan", "PlanError", "Plans", "RegionPlan", "Verification", "backend",
    "estimate", "knapsack", "largest_batch", "plan",
]  # fmt: skip

_HOMES = {
    "Estimate": "estimating", "LargestBatch": "batches", "estimate": "estimating", "largest_batch": "batches",
    "NoPlanError": "errors", "Plan": "plans", "PlanError": "errors", "Plans": "integrations", "RegionPlan": "regions",
    "Verification": "steps", "backend": "compiling", "knapsack": "packing", "plan": "planning",
}  # fmt: skip


if not TYPE_CHECKING:  # where it is seen, any name is taken for one that is there

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
