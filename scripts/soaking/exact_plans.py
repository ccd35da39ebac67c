"""Exact plans of several memories for tiny graphs, from the definition alone; nothing of the package is used.

A state is outputs in each memory, outputs computed so far, and the place in a stage; besides, how often each was made.
Moves: drop an output, which is free; compute an operation and keep some of its further outputs; copy an output over a
link. Dropping can wait: before a move as much is kept as leaves room for it. ::

    Machine(budgets, compute, links, access, device)    memories, what each computes, links, costs of accesses, devices
    account_of_plan(g, machine, plan)            the judge: flaws, totals, memory, intervals, overwrites
    best_plan(g, machine, mode, most, goal)      (least total, plan); mode "free" | "first" | "staged" | "slots"
    plan_in_scope(g, machine, plan, mode, most)  is a plan what that mode and these limits allow?
    Steps(g, machine, mode).after(state)         what may follow a state, also for random plans

An action of a plan is (node, memory, source): copied from the memory `source`, or computed (None).
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations, count
from math import inf

from soaking.exact import kept, sums_of_sets

TOTALS = ("duration", "energy", "traffic")
MOST_NODES = 14


@dataclass
class Machine:
    """Memories, numbered from 0. Costs are pairs of duration and energy."""

    budgets: list  # by memory; None: no limit
    compute: list  # by memory: None if nothing is computed there, else by node a cost or None
    links: dict = field(default_factory=dict)  # by (from, to): by node a cost
    access: list = None  # by memory and node the duration of a read or a write; without devices: all are of one
    device: list = None  # by memory the first one of its device, in which an output lies in one memory at a time

    def __post_init__(self):
        self.numbers = range(len(self.budgets))
        if self.device is None:
            self.device = [m if self.access is None else 0 for m in self.numbers]

    def computes(self, v, m):
        return self.compute[m] is not None and self.compute[m][v] is not None


# ---- the judge ---------------------------------------------------------------------------------------------------
@dataclass
class PlanAccount:
    """What a plan comes to. Positions are from 1."""

    flaws: list  # (kind, position or None)
    totals: tuple  # of TOTALS
    memory: tuple  # by memory and position
    intervals: tuple  # (node, memory, start, end, source)
    overwrites: tuple  # (position, inputs that may be the one overwritten)

    @property
    def peaks(self):
        return tuple(max(used, default=0) for used in self.memory)


def account_of_plan(g, machine, plan):
    flaws, copies, totals = [], [], [0, 0, 0]

    def latest(v, m):
        return next((c for c in reversed(copies) if c[0] == v and machine.device[c[1]] == machine.device[m]), None)

    for t, (v, m, source) in enumerate(plan, 1):
        if kind := _impossible(g, machine, latest, v, m, source):
            flaws.append((kind, t))
            continue
        if source is None:
            there = {u: copy for u in g.pred[v] if (copy := latest(u, m))}
            flaws += [("missing-input", t)] * (len(g.pred[v]) - len(there))
            flaws += [("apart", t)] * _apart(g, machine, copies, there, t, v, m)
            duration, energy = machine.compute[m][v]
            if machine.access and v == g.first[v]:
                duration += sum(machine.access[copy[1]][u] for u, copy in there.items())
                duration += sum(machine.access[m][w] for w in g.outs[v])
            cost, read = (duration, energy, 0), list(there.values())
        else:
            cost, read = (*machine.links[source, m][v], g.size[v]), [latest(v, source)]
        for copy in read:
            copy[3] = t
        totals = [a + b for a, b in zip(totals, cost, strict=True)]
        copies.append([v, m, t, t, source])
    computed = {v for v, *_, source in copies if source is None}
    flaws += [("never-computed", None) for v in range(g.n) if v not in computed]
    memory, overwrites = _memory(g, machine, copies, len(plan))
    for budget, used in zip(machine.budgets, memory, strict=True):
        flaws += [("over-budget", t) for t, amount in enumerate(used, 1) if budget is not None and amount > budget]
    return PlanAccount(flaws, tuple(totals), memory, tuple(map(tuple, copies)), overwrites)


def _impossible(g, machine, latest, v, m, source):
    if not 0 <= v < g.n:
        return "unknown-node"
    if not all(a in machine.numbers for a in (m, source) if a is not None):
        return "unknown-memory"
    if source is None:
        return None if machine.computes(v, m) else "cannot-compute"
    if (source, m) not in machine.links:
        return "no-link"
    copy = latest(v, source)
    return None if copy and copy[1] == source else "missing-copy"


def _apart(g, machine, copies, there, t, v, m):
    """how often outputs are apart that should be together"""
    flaws = 0
    if v != g.first[v]:
        w, k, start, _, source = copies[-1] if copies else (v, m, None, None, None)
        flaws += not (start == t - 1 and k == m and source is None and g.first[w] == g.first[v])
    flaws += sum(len({there[u][1] for u in group if u in there}) > 1 for group in g.groups[v])
    return flaws


def _memory(g, machine, copies, length):
    memory = [[sum(g.size[w] for w, k, s, e, _ in copies if k == m and s <= t <= e) for t in range(1, length + 1)]
              for m in machine.numbers]  # fmt: skip
    overwrites = []
    for v, m, t, _, source in copies:
        if source is None and v == g.first[v]:
            memory[m][t - 1] += g.ws[v] + sum(g.size[w] for w in g.outs[v] if w != v)
            dying = sorted(w for w, k, s, e, _ in copies if w in g.ip[v] and k == m and s < e == t)
            if dying:
                memory[m][t - 1] -= g.size[v]
                overwrites.append((t, tuple(dying)))
    return tuple(map(tuple, memory)), tuple(overwrites)


# ---- what may follow ---------------------------------------------------------------------------------------------
def _stage_after(g, machine, mode, comp, at, action):
    """The place in a stage after an action, in which first computations are in the input order; None: out of place.

    "first": no more than that. "staged": stage k is the first k-1 nodes of the order, each, in the order, recomputed,
    or copied to where something is computed, or not, and the k-th computed; other copies at any time.
    "slots": see below."""
    if mode == "slots":
        return _slot_after(g, machine, comp, at, action)
    v, m, source = action
    place = g.order.index(v)
    if source is None and not comp >> v & 1 and comp != sum(1 << w for w in g.order[:place]):
        return None
    if mode == "first" or (mode == "staged" and source is not None and machine.compute[m] is None):
        return at
    slot, (stage, latest) = (place,), at
    if place <= stage and slot > latest:
        return stage, slot
    stage += 1
    return (stage, slot) if comp >> g.order[stage - 1] & 1 and stage < g.n and place <= stage else None


def _slot_after(g, machine, comp, at, action):
    """An operation has in a stage first its computations, by device and output, then copies, by output and device, each
    output once on a device; stage k is one of the first k operations, and what is new is of the last of them."""
    v, m, source = action
    operations, d = [u for u in g.order if g.of[u] is None], machine.device[m]
    place = operations.index(g.first[v])
    output = [u for u in g.order if g.first[u] == g.first[v]].index(v)
    slot = (place, 0, d, output) if source is None else (place, 1, output, d)
    stage, latest = at
    brought = latest[-1] if latest[:1] == (place,) else ()
    if place > stage or slot <= latest or (v, d) in brought:
        stage, brought = stage + 1, ()
        if not comp >> operations[stage - 1] & 1 or stage == len(operations) or place > stage:
            return None
    is_first = source is None and not comp >> v & 1
    return None if is_first and place != stage else (stage, (*slot, (*brought, (v, d))))


class Steps:
    """A state is (outputs in each memory, outputs computed, place in a stage): sets are bits of integers."""

    def __init__(self, g, machine, mode="free"):
        if g.n > MOST_NODES:
            raise MemoryError("too many nodes")
        self.g, self.machine, self.mode = g, machine, mode
        self.full, self.size_of = (1 << g.n) - 1, sums_of_sets(g.size)
        self.rooms = [inf if each is None else each for each in machine.budgets]
        self.start = (0,) * len(self.rooms), 0, (0, ())

    def after(self, state):
        """(costs, state, actions)"""
        for f in self.g.ops:
            for m in self.machine.numbers:
                further = [w for w in self.g.outs[f][1:] if self.machine.computes(w, m)]
                for k in range(len(further) + 1) if self.machine.computes(f, m) else ():
                    for some in combinations(further, k):
                        yield from self._computed(state, (f, *sorted(some, key=self.g.order.index)), m)
        for (a, m), costs in self.machine.links.items():
            for v in range(self.g.n):
                if state[0][a] >> v & 1 and not state[0][m] >> v & 1:
                    yield from self._made(state, [(v, m, a)], (*costs[v], self.g.size[v]), 0, self.g.size[v])

    def _computed(self, state, made, m):
        g, machine, (there, comp, _) = self.g, self.machine, state
        f = made[0]
        lies = {
            u: k
            for u in g.pred[f]
            for k in machine.numbers
            if machine.device[k] == machine.device[m] and there[k] >> u & 1
        }
        if len(lies) < len(g.pred[f]) or all(there[m] >> w & 1 for w in made) or (f in g.once and comp >> f & 1):
            return
        if any(len({lies.get(u, m) for u in group}) > 1 for w in made for group in g.groups[w]):
            return
        duration, energy = (sum(machine.compute[m][w][which] for w in made) for which in (0, 1))
        if machine.access:
            duration += sum(machine.access[k][u] for u, k in lies.items()) + sum(
                machine.access[m][w] for w in g.outs[f]
            )
        costs, actions = (duration, energy, 0), [(w, m, None) for w in made]
        must, taken = sum(1 << u for u, k in lies.items() if k == m), g.ws[f] + sum(g.size[w] for w in g.outs[f])
        yield from self._made(state, actions, costs, must, taken)
        for u in g.ip[f] if len(made) == 1 else ():
            if lies[u] == m:
                yield from self._made(state, actions, costs, must, taken - g.size[f], 1 << u)

    def _made(self, state, actions, costs, must, taken, gone=0):
        """What follows if these inputs stay in the target, that much is taken besides, and one is overwritten."""
        there, comp, at = state
        m, new = actions[0][1], sum(1 << v for v, _, _ in actions)
        for action in actions if self.mode != "free" else ():
            at = _stage_after(self.g, self.machine, self.mode, comp, at, action)
            if at is None:
                return
            comp |= 0 if action[2] is not None else 1 << action[0]
        comp |= new if actions[0][2] is None else 0
        of = self.machine.device
        there = tuple(each & ~new if k != m and of[k] == of[m] else each for k, each in enumerate(there))
        for some in kept(self.size_of, self.g, must, there[m] & ~must & ~new, self.rooms[m] - taken):
            yield costs, ((*there[:m], some & ~gone | new, *there[m + 1 :]), comp, at), actions


def plan_in_scope(g, machine, plan, mode="free", most=None):
    """Is the plan in stages of the input order, if that is asked, and no retention interval too many? `most`: by memory
    and node, in the first memory of a device."""
    made = Counter((v, machine.device[m]) for v, m, _ in plan)
    if most is not None and any(number > most[m][v] for (v, m), number in made.items()):
        return False
    if any(number > 1 for v, number in Counter(v for v, _, source in plan if source is None).items() if v in g.once):
        return False
    comp, at = 0, (0, ())
    for action in plan if mode != "free" else ():
        at = _stage_after(g, machine, mode, comp, at, action)
        if at is None:
            return False
        comp |= 0 if action[2] is not None else 1 << action[0]
    return True


# ---- the best plan -----------------------------------------------------------------------------------------------
MOST_STATES = 60_000


def best_plan(g, machine, mode="free", most=None, goal="duration", caps=None, states=MOST_STATES):
    """(least total, plan), or None if there is none; MemoryError: too many states.

    most: retention intervals, by memory and node; of a device, in its first memory. caps: the most of some totals."""
    if most is not None:  # without limits first: often that is within them
        found = best_plan(g, machine, mode, None, goal, caps, states)
        if found is None or plan_in_scope(g, machine, found[1], mode, most):
            return found
    steps, which, tie = Steps(g, machine, mode), TOTALS.index(goal), count()
    limits = [(caps or {}).get(total) for total in TOTALS]
    watched = [k for k in range(3) if k == which or limits[k] is not None]
    rest = sums_of_sets([_least(g, machine, v, which) for v in range(g.n)])
    zero = (0,) * (g.n * len(steps.rooms) if most is not None else 0)
    heap, settled, seen = [(rest[-1], 0, 0, next(tie), steps.start, (0, 0, 0), zero, None)], {}, 0
    while heap:
        _, _, _, _, state, totals, made, trail = heapq.heappop(heap)
        figures, known = (*(totals[k] for k in watched), *made), settled.setdefault(state, [])
        if any(all(map(int.__le__, each, figures)) for each in known):
            continue
        known.append(figures)
        seen += 1
        if seen > states:
            raise MemoryError("too many states")
        if state[1] == steps.full:
            return totals[which], _plan_of(trail)
        for costs, then, actions in steps.after(state):
            sums = tuple(map(int.__add__, totals, costs))
            more = _counted(g, machine, made, actions)
            if any(cap is not None and total > cap for cap, total in zip(limits, sums, strict=True)):
                continue
            if more and any(number > most[k // g.n][k % g.n] for k, number in enumerate(more)):
                continue
            order = sums[which] + rest[steps.full & ~then[1]], -then[1].bit_count(), sum(more), next(tie)
            heapq.heappush(heap, (*order, then, sums, more, (trail, actions)))
    return None


def _least(g, machine, v, which):
    """No plan computes a node for less."""
    if TOTALS[which] == "traffic":
        return 0
    least = min(machine.compute[m][v][which] for m in machine.numbers if machine.computes(v, m))
    if which or not machine.access or v != g.first[v]:
        return least
    return least + sum(min(row[u] for row in machine.access) for u in [*g.pred[v], *g.outs[v]])


def _counted(g, machine, made, actions):
    more = list(made)
    for v, m, _ in actions if made else ():
        more[v + machine.device[m] * g.n] += 1
    return tuple(more)


def _plan_of(trail):
    plan = []
    while trail:
        trail, actions = trail
        plan += reversed(actions)
    return plan[::-1]
