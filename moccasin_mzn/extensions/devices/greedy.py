"""Plans that compute on one device unless another one is faster, and move outputs out of its memory when it runs short.

What is needed again last is moved out first. It is copied right after its computation, when that costs the device no
memory, so that it may be dropped at any later time; and it is copied back in the stage that reads it.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from moccasin_mzn.extensions.devices.slots import Slots
from moccasin_mzn.problem.plan_problem import PlanProblem


class Greedy:
    """One such plan.

    Args:
        device: where nodes are computed, and where all that is not moved out is held. A node that another device
            computes at less cost, its inputs copied there and its output copied back, is computed there.
        store: the memory that outputs are moved to, with links to the device and back.
    """

    def __init__(self, problem: PlanProblem, device: int, store: int) -> None:
        platform, order = problem.platform, problem.instance.order
        self.problem, self.device, self.store = problem, device, store
        self.memories = platform.memories
        self.n = len(order)
        number = {v: k for k, v in enumerate(order, 1)}
        self.size = [0, *(platform.graph.sizes[v] for v in order)]
        self.inputs = [[], *([number[u] for u in platform.graph.predecessors[v]] for v in order)]
        self.uses = [[], *(sorted(number[x] for x in platform.graph.successors[v]) for v in order)]
        self.table: Slots = {}
        self.home, self.brought = [0] * (self.n + 1), [0] * (self.n + 1)
        self.stored, self.stored_memory = set[int](), [0] * (self.n + 2)

    def slots(self) -> Slots | None:
        """The plan's table, which may be over budgets other than the device's; None: outputs have nowhere to go."""
        resident: set[int] = set()
        for k in range(1, self.n + 1):
            held = {u for u in resident if self._next_use(u, k) <= self.n}
            missing = [u for u in self.inputs[k] if u not in held]
            needed = {k, *self.inputs[k]}
            resident = held | needed
            if not self._make_room(resident, needed, k):
                return None
            for u in missing:
                self.table[k, u, self._copy(self.device)] = self.store
                self.brought[u] += 1
            self._compute(k)
        return self.table

    def _next_use(self, u: int, k: int) -> int:
        """The first stage from k on that reads u; after the last one there is none."""
        at = bisect_left(self.uses[u], k)
        return self.uses[u][at] if at < len(self.uses[u]) else self.n + 1

    def _make_room(self, resident: set[int], needed: set[int], k: int) -> bool:
        """Move out until all that is resident fits; False: it never does."""
        budget = self.memories[self.device].budget
        over = 0 if budget is None else sum(self.size[u] for u in resident) - budget
        spare = sorted(resident - needed, key=lambda u: (-self._next_use(u, k), -self.size[u]))
        for u in spare:
            if over <= 0:
                break
            most = self.problem.most_intervals(self.problem.instance.order[u - 1], self.device)
            if self.size[u] == 0 or self.brought[u] >= most or not self._keep(u):
                continue
            resident.remove(u)
            over -= self.size[u]
        return over <= 0

    def _keep(self, u: int) -> bool:
        """Have u in the store from its computation to its last use; False if it does not fit there."""
        if u in self.stored:
            return True
        budget = self.memories[self.store].budget
        stages = range(u, self.uses[u][-1] + 1)
        if budget is not None and max(self.stored_memory[k] for k in stages) + self.size[u] > budget:
            return False
        for k in stages:
            self.stored_memory[k] += self.size[u]
        self.stored.add(u)
        if self.home[u] != self.store:
            self.table[u, u, self._copy(self.store)] = self.home[u]
        return True

    def _compute(self, k: int) -> None:
        """Compute node k where that costs least, inputs copied there and the output copied back."""
        v = self.problem.instance.order[k - 1]
        able = [m for m, memory in enumerate(self.memories) if memory.computes(v)]
        home = self.home[k] = min(able, key=lambda m: self._cost(k, m))
        self.table[k, k, home] = None
        if home != self.device:
            for u in self._inputs_to_copy(k, home):
                self.table[k, u, self._copy(home)] = self.device
            if self.uses[k]:
                self.table[k, k, self._copy(self.device)] = home
        self.brought[k] += 1

    def _inputs_to_copy(self, k: int, home: int) -> list[int]:
        return [u for u in self.inputs[k] if not (home == self.store and u in self.stored)]

    def _cost(self, k: int, m: int) -> float:
        """Of computing node k in memory m, with its copies, as the objective counts it; infinite without links."""
        what = "energies" if self.problem.goal.objective == "energy" else "durations"
        platform, order = self.problem.platform, self.problem.instance.order
        total = getattr(self.memories[m], what)[order[k - 1]]
        if m == self.device:
            return total
        there, back = (platform.link_between.get(ends) for ends in ((self.device, m), (m, self.device)))
        if there is None or back is None:
            return math.inf
        total += sum(getattr(there, what)[order[u - 1]] for u in self._inputs_to_copy(k, m))
        return total + (getattr(back, what)[order[k - 1]] if self.uses[k] else 0)

    def _copy(self, target: int) -> int:
        return target + len(self.memories)
