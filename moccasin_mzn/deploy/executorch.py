"""Offsets for ExecuTorch: what its memory planning pass calls, in place of its own greedy rule.

The pass determines which tensors are planned and how long they live; inputs and outputs that are the caller's, tensors
without a bound on their shape, and constants are not among them. Where each tensor lies is decided here::

    mem_id 1:  [ branches of control flow ][ arena ][ padding for delegates ]

A tensor within the storage of another one (`storage_base`) goes wherever that one does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moccasin_mzn.checks import check_seed, check_time_limit
from moccasin_mzn.errors import require
from moccasin_mzn.extensions.addresses import ADDRESSES
from moccasin_mzn.extensions.addresses.search import search_arena
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.problem.arena import Arena, Buffer

if TYPE_CHECKING:
    from executorch.exir.memory_planning import MemoryAlgoResult
    from executorch.exir.tensor import TensorSpec
    from torch import fx
    from torch.export import ExportGraphSignature


@dataclass(frozen=True)
class MemoryPlanning:
    """A `memory_planning_algo` for ExecuTorch's `MemoryPlanningPass`, whose arenas are never larger than greedy ones.

    An interrupt from the keyboard ends the search of an arena with the best one found.

    Raises:
        InputError: nonsense as a time limit or a seed; ExecuTorch is missing.
    """

    time_limit: float | None = 10.0
    """Seconds for each arena; None: as long as it seems of use. Mostly the bound is met, which ends it, long before."""
    seed: int = 0
    """Seed of the search."""
    arenas: list[Arena] = field(default_factory=list, init=False, compare=False)
    """What was found, an arena after the other, branches of control flow before what calls them. Sizes are bytes,
    without what branches take at the beginning, and padding; no arena is smaller than `bound`."""

    def __post_init__(self) -> None:
        check_time_limit(self.time_limit)
        check_seed(self.seed)
        require("executorch", "executorch")

    def __call__(
        self, alignment: int, specs: object, graph_module: object, graph_signature: object, extra_padding: int = 0
    ) -> list[int]:
        """Place tensors, as `MemoryPlanningPass` asks for it.

        Args:
            alignment: bytes of which all offsets are multiples.
            specs: TensorSpecs with lifetimes, which get `mem_id` where they have none, `mem_offset` and `mem_obj_id`.
            graph_module: its `input_mem_buffer_sizes` are the bytes at the beginning of each memory that are taken.
            graph_signature: decides nothing.
            extra_padding: bytes to add at the end of each memory.

        Returns:
            Bytes of each memory by `mem_id`, of which 0 stands for constants.

        Raises:
            InputError: tensors of 2^53 bytes or more.
        """
        from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite

        suite = MemoryPlanningAlgorithmSuite([self.result])
        return suite(alignment, specs, graph_module, graph_signature, extra_padding)

    def result(
        self,
        alignment: int,
        specs: Iterable[TensorSpec],
        graph_module: fx.GraphModule,
        graph_signature: ExportGraphSignature,
        extra_padding: int = 0,
    ) -> MemoryAlgoResult:
        """As `__call__`, but nothing is written into the specs: one of several in a `MemoryPlanningAlgorithmSuite`."""
        from executorch.exir.memory_planning import greedy

        for spec in specs:  # greedy sorts by sizes before it aligns them, and fails where that changes their order
            spec.realign(alignment)
        known = greedy(alignment, specs, graph_module, graph_signature)  # it checks the specs, too
        placed, roots = known.spec_dict, [spec for spec in specs if spec.storage_base is None]
        taken = getattr(graph_module, "input_mem_buffer_sizes", None) or []
        sizes = [-(-size // alignment) * alignment for size in taken]
        sizes += [0] * (1 + max([1, *(place.mem_id for place in placed.values())]) - len(sizes))
        for mem_id in sorted({placed[root].mem_id for root in roots}):
            here = [root for root in roots if placed[root].mem_id == mem_id]
            arena = self._arena(here, alignment, [placed[root].mem_offset for root in here])
            for root, offset in zip(here, arena.offsets, strict=True):
                placed[root].mem_offset = sizes[mem_id] + offset
            sizes[mem_id] += arena.size + extra_padding
        for spec in specs:
            root, offset = spec, 0
            while root.storage_base is not None:
                root, offset = root.storage_base, offset + root.storage_base_offset
            placed[spec].mem_offset = placed[root].mem_offset + offset
            placed[spec].mem_obj_id = 0  # all tensors share one object, the arena
        known.bufsizes = sizes
        return known

    def _arena(self, specs: list[TensorSpec], alignment: int, known: list[int]) -> Arena:
        """Make the arena of tensors with storage of their own; `known` are offsets in one that is no smaller."""
        ready(ADDRESSES)
        buffers = [
            Buffer(str(number), spec.lifetime[0], spec.lifetime[1] + 1, spec.allocated_memory)  # the last use is inside
            for number, spec in enumerate(specs)
        ]
        arena = search_arena(
            buffers, alignment, time_limit=self.time_limit, seed=self.seed, on_interrupt=lambda: None,
            begin_with=[offset - min(known) for offset in known],
        )  # fmt: skip
        self.arenas.append(arena)
        return arena
