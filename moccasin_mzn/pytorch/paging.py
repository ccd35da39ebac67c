"""Plans with slow memory: what there is of it, what copies cost, and the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moccasin_mzn.errors import InputError
from moccasin_mzn.extensions.asking import plan_options
from moccasin_mzn.extensions.devices.build import CopyCosts, with_slow_memory
from moccasin_mzn.extensions.memory_options import TAKEN
from moccasin_mzn.extensions.paging.build import PagingCosts
from moccasin_mzn.extensions.paging.formulation import PagingFormulation
from moccasin_mzn.extensions.platforms import Amount, capacity_of, paging_costs
from moccasin_mzn.extensions.solve import solve_on_platform
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Memory, Platform
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.result import Result

if TYPE_CHECKING:
    import torch

Paging = bool | PagingCosts | Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """What is said of slow memory.

    Raises:
        InputError: nonsense in an argument, or an option that does not go with it.
    """

    paging: Paging
    """True: copies cost what is measured."""
    slow_memory: Amount | None
    how: Mapping[str, Any] = field(repr=False)
    """Options of `moccasin_mzn.solve`."""

    def __post_init__(self) -> None:
        for name in self.how:
            if name not in TAKEN:
                raise InputError(f"{name.replace('_', ' ')} is for one memory, it does not go with slow memory")
        self.costs(), self.options, capacity_of(self.slow_memory, 1)  # refused now, not when all is traced

    @property
    def options(self) -> SearchOptions:
        return plan_options(self.how)

    def costs(self) -> tuple[CopyCosts | None, CopyCosts | None] | None:
        """Of writing and of reading back, each None if it is not possible; None for both: they are to be measured."""
        return None if isinstance(self.paging, bool) else paging_costs(self.paging).ways()


@dataclass(frozen=True)
class SlowMemory:
    """Slow memory beside the one that computes."""

    capacity: int | None
    """Bytes; None: as much as there may be."""
    costs: tuple[CopyCosts | None, CopyCosts | None]
    """Of writing and of reading back; None: not possible."""
    options: SearchOptions

    @classmethod
    def of(cls, asked: Asked, device: torch.device, unit: str, peak: int) -> SlowMemory:
        """What is asked for on a device.

        Args:
            unit: of durations.
            peak: of the step without a plan, of which a capacity may be a fraction.
        """
        from moccasin_mzn.pytorch.copy_costs import measured_costs

        costs = asked.costs() or measured_costs(device, unit)
        return cls(capacity_of(asked.slow_memory, peak), costs, asked.options)

    def solved(
        self, graph: ComputationGraph, budget: int, counts: Sequence[int], on_progress: Callable[[Any], None] | None,
        begin: float,
    ) -> Result:  # fmt: skip
        """The best plan that is found within a budget of fast memory."""
        instance = Instance.build(graph, budget, max_computations=counts)
        local = Platform(graph, (Memory("local", budget, graph.durations),))
        problem = PlanProblem(instance, with_slow_memory(local, self.capacity, *self.costs))
        return solve_on_platform(problem, PagingFormulation(), self.options, on_progress or _ignore, begin=begin)


def _ignore(progress: object) -> None:
    pass
