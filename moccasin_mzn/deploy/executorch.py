"""Offsets for ExecuTorch: what its memory planning pass calls, in place of its own greedy rule.

The pass determines which tensors are planned and how long they live; inputs and outputs that are the caller's, tensors
without a bound on their shape, and constants are not among them. Where each tensor lies is decided here::

    mem_id 1:  [ branches of control flow ][ arena ][ padding for delegates ]

With `memories` each tensor lies in one of them, the first of which is mem_id 1, the second mem_id 2, and so on: so that
what all reads and writes take is least, as far as is found. A tensor within the storage of another one (`storage_base`)
goes wherever that one does.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from moccasin_mzn.base.checks import check_seed, check_time_limit
from moccasin_mzn.base.errors import InputError, require
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.machine.addresses import ADDRESSES
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.machine.platforms import MemoryPool
from moccasin_mzn.machine.pools.assign import Assignment, Item
from moccasin_mzn.machine.problems import Amount, pools_of
from moccasin_mzn.problem.arena import Arena, Buffer

if TYPE_CHECKING:
    from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult
    from executorch.exir.tensor import TensorSpec
    from torch import fx
    from torch.export import ExportGraphSignature

MOST_TRIES, TURNS = 8, 2000
"""Most times that tensors are given memories, each with less room where the last arena was too large; most changes."""


@dataclass(frozen=True)
class MemoryPlanning:
    """A `memory_planning_algo` for ExecuTorch's `MemoryPlanningPass`, whose arenas are never larger than greedy ones.

    An interrupt from the keyboard ends the search of an arena with the best one found.

    Raises:
        InputError: nonsense as a time limit, a seed or a memory; ExecuTorch is missing.
    """

    time_limit: float | None = 10.0
    """Seconds for each arena; None: as long as it seems of use. Mostly the bound is met, which ends it, long before."""
    seed: int = 0
    """Seed of the search."""
    memories: Mapping[str, MemoryPool | Amount | None] | None = None
    """Memories by name, in the order of `mem_id` from 1, such as {"fast": "128KiB", "slow": "8MiB:4"}: what each holds,
    and what a read or a write of a byte there takes in any unit. None: there is one, without a limit."""
    arenas: list[Arena] = field(default_factory=list, init=False, compare=False)
    """What was found, an arena after the other, branches of control flow before what calls them. Sizes are bytes,
    without what branches take at the beginning, and padding; no arena is smaller than `bound`."""

    def __post_init__(self) -> None:
        check_time_limit(self.time_limit)
        check_seed(self.seed)
        require("executorch", "executorch")
        for name, pool in ({} if self.memories is None else pools_of(self.memories)).items():
            if pool.budget is not None and pool.budget.fraction is not None:
                raise InputError(f"memory {name}: expected a number of bytes, such as 128KiB")

    def __call__(
        self, alignment: int, specs: object, graph_module: object, graph_signature: object, extra_padding: int = 0
    ) -> list[int]:
        """Place tensors, as `MemoryPlanningPass` asks for it.

        Args:
            alignment: all offsets are multiples of this, in bytes.
            specs: TensorSpecs with lifetimes, which get `mem_id` where they have none, `mem_offset` and `mem_obj_id`.
            graph_module: its `input_mem_buffer_sizes` are the bytes at the beginning of each memory that are taken.
            graph_signature: decides nothing.
            extra_padding: bytes to add at the end of each memory.

        Returns:
            Bytes of each memory by `mem_id`, where 0 stands for constants.

        Raises:
            InputError: tensors of 2^53 bytes or more; some have no room in `memories`, as far as is found.
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
        if self.memories is not None:
            self._into_memories(roots, placed, Counter(_accessed(graph_module)), sizes, alignment, extra_padding)
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
            placed[spec].mem_id, placed[spec].mem_offset = placed[root].mem_id, placed[root].mem_offset + offset
            placed[spec].mem_obj_id = 0  # all tensors share one object, the arena
        known.bufsizes = sizes
        return known

    def _into_memories(
        self, roots: Sequence[TensorSpec], placed: dict[TensorSpec, SpecAllocResult], accesses: Counter[int],
        taken: Sequence[int], alignment: int, padding: int,
    ) -> None:  # fmt: skip
        """Give each tensor the `mem_id` of a memory whose arena stays within its budget."""
        if any(placed[root].mem_id > 1 for root in roots):
            raise InputError("memories: some tensors have a mem_id of their own")
        assert self.memories is not None
        pools = pools_of(self.memories)
        costs = [Fraction(pool.access) for pool in pools.values()]
        unit = math.lcm(*(cost.denominator for cost in costs))
        items = [
            Item.of(
                [(root.lifetime[0], root.lifetime[1], root.allocated_memory)],
                tuple(int(cost * unit) * root.allocated_memory * accesses[id(root)] for cost in costs),
            )
            for root in roots
        ]  # fmt: skip
        everything = sum(root.allocated_memory for root in roots)
        horizon = max((of.end + 1 for of in items), default=1)
        reserved = [padding + (taken[k] if k < len(taken) else 0) for k in range(1, 1 + len(pools))]
        limits = [
            everything if pool.budget is None else max(0, (pool.budget.amount or 0) - more)
            for pool, more in zip(pools.values(), reserved, strict=True)
        ]
        room, rng = list(limits), random.Random(self.seed)
        for _ in range(MOST_TRIES):
            found = Assignment(items, room, horizon, rng)
            if not found.find():
                break
            found.improve(TURNS)
            for root, m in zip(roots, found.places, strict=True):
                placed[root].mem_id = 1 + m
            over = []
            for m, most in enumerate(limits):
                here = [root for root in roots if placed[root].mem_id == 1 + m]
                buffers = [_buffer(number, root) for number, root in enumerate(here)]
                arena = search_arena(buffers, alignment, time_limit=1.0, seed=self.seed, enough=most)
                for root, offset in zip(here, arena.offsets, strict=True):
                    placed[root].mem_offset = offset
                over.append(max(0, arena.size - most))
            if not any(over):
                return
            room = [amount - more for amount, more in zip(room, over, strict=True)]
        text = ", ".join(f"{name} {memory_text(most, 'byte')}" for name, most in zip(pools, limits, strict=True))
        raise InputError(f"memories: no room found for {memory_text(everything, 'byte')} of tensors in {text}")

    def _arena(self, specs: list[TensorSpec], alignment: int, known: list[int]) -> Arena:
        """Make the arena of tensors with storage of their own; `known` are offsets in one that is no smaller."""
        ready(ADDRESSES)
        buffers = [_buffer(number, spec) for number, spec in enumerate(specs)]
        arena = search_arena(
            buffers, alignment, time_limit=self.time_limit, seed=self.seed, on_interrupt=lambda: None,
            begin_with=[offset - min(known) for offset in known],
        )  # fmt: skip
        self.arenas.append(arena)
        return arena


def _buffer(number: int, spec: TensorSpec) -> Buffer:
    """The buffer of a tensor; its last use is inside its lifetime."""
    return Buffer(str(number), spec.lifetime[0], spec.lifetime[1] + 1, spec.allocated_memory)


def _accessed(graph_module: fx.GraphModule) -> Iterator[int]:
    """The identity of the tensor that owns the storage of what is written or read, once for each write and read."""
    for node in graph_module.graph.nodes:
        specs = node.meta.get("spec")
        for spec in specs if isinstance(specs, list | tuple) else [] if specs is None else [specs]:
            root = spec
            while root.storage_base is not None:
                root = root.storage_base
            yield from [id(root)] * ((root is spec) + len(node.users))
