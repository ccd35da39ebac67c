"""Exact answers for tiny graphs, from the definitions alone; nothing of the package is used.

A state of a schedule is (outputs in memory, outputs computed so far, computations of each operation). Moves: drop an
output, which is free, or compute an operation. Sets of nodes are bits of an integer. ::

    Tiny(...)                                a graph, with workspaces, in place, further outputs
    account(g, sequence)                     the judge: flaw, duration, peak, intervals, overwrites
    best(g, budget, mode, most)              least duration; mode "free" | "first" | "staged"; most None: no limit
    least_peak(g, mode, most)                least feasible budget
    arena_best(g, size, align, most, mode)   least duration within an arena with offsets
    least_arena(boxes, fixed, upper)         least arena of buffers with gaps and given offsets
    layout_flaw(boxes, offsets)              an overlap, in words

Plans of several memories: `soaking.exact_plans`.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count, product


@dataclass
class Tiny:
    """A graph: lists by node; of an operation with several outputs each is a node, and all but the first name it."""

    dur: list
    size: list
    edges: list
    ws: list = None
    ip: list = None  # per node: inputs that may be overwritten (only if run in place)
    of: list = None  # per node: first output or None
    once: tuple = ()
    order: list = None  # input order
    groups: list = None  # per node: groups of inputs that are read as one

    def __post_init__(self):
        n = self.n = len(self.dur)
        self.ws = list(self.ws) if self.ws else [0] * n
        self.ip = [tuple(r) for r in self.ip] if self.ip else [()] * n
        self.of = list(self.of) if self.of else [None] * n
        self.groups = [tuple(map(tuple, r)) for r in self.groups] if self.groups else [()] * n
        pred = [set() for _ in range(n)]
        for u, v in self.edges:
            pred[v].add(u)
        self.ops = [v for v in range(n) if self.of[v] is None]
        self.outs = {v: [v] + [w for w in range(n) if self.of[w] == v] for v in self.ops}
        for v in self.ops:  # a further output reads the first one and what that reads
            for w in self.outs[v][1:]:
                assert pred[w] <= pred[v] | {v}
                pred[w] = pred[v] | {v}
        self.pred = [frozenset(p) for p in pred]
        self.first = [v if f is None else f for v, f in enumerate(self.of)]
        if self.order is None:
            self.order = self._topo()
        self.order = self._together(self.order)
        self.once = frozenset(w for v in self.once for w in self.outs[self.first[v]])
        self.total = sum(self.dur)

    def _topo(self):
        done, order = set(), []
        while len(order) < self.n:
            v = next(v for v in range(self.n) if v not in done and self.pred[v] <= done)
            done.add(v), order.append(v)
        return order

    def _together(self, order):
        out = []
        for v in order:
            if self.of[v] is None:
                out += [v] + [w for w in order if self.of[w] == v]
        return out

    def counts(self, limit):
        """per op limit, or None"""
        if limit is None:
            return None if not self.once else {v: (1 if v in self.once else 99) for v in self.ops}
        per = [limit] * self.n if isinstance(limit, int) else list(limit)
        per = [1 if v in self.once else c for v, c in enumerate(per)]
        return {v: min(per[w] for w in self.outs[v]) for v in self.ops}


# ---- the judge ---------------------------------------------------------------------------------------------------
@dataclass
class Account:
    """What a sequence comes to."""

    flaw: str
    duration: int = 0
    peak: int = 0
    intervals: tuple = ()
    overwrites: tuple = ()
    memory: tuple = ()
    counts: dict = None


def account(g, seq):
    for t, v in enumerate(seq):
        if g.of[v] is not None:
            f = g.of[v]
            if t == 0 or not (seq[t - 1] == f or g.of[seq[t - 1]] == f):
                return Account(f"pos {t}: {v} not right after its first output")
    last = {}
    iv = []  # [node, start, end]
    for t, v in enumerate(seq):
        for u in g.pred[v]:
            if u not in last:
                return Account(f"pos {t}: {v} reads {u} which is not there")
            iv[last[u]][2] = t
        last[v] = len(iv)
        iv.append([v, t, t])
    if len(last) < g.n:
        return Account("a node is never computed")
    mem, over = [], []
    for t, v in enumerate(seq):
        m = sum(g.size[w] for w, s, e in iv if s <= t <= e)
        if g.of[v] is None:
            m += g.ws[v] + sum(g.size[w] for w in g.outs[v][1:])
        dying = [w for w, s, e in iv if e == t and w in g.ip[v] and s < t]
        if dying:
            m -= g.size[v]
            over.append((t, v, dying))
        mem.append(m)
    c = {}
    for v in seq:
        if g.of[v] is None:
            c[v] = c.get(v, 0) + 1
    return Account("", sum(g.dur[v] for v in seq), max(mem), tuple(map(tuple, iv)), tuple(over), tuple(mem), c)


def in_scope(g, seq, mode, limit):
    lim = g.counts(limit)
    acc = account(g, seq)
    if acc.flaw:
        return False
    if lim and any(acc.counts[v] > lim[v] for v in g.ops):
        return False
    if mode == "free":
        return True
    if list(dict.fromkeys(seq)) != list(g.order):
        return False
    if mode == "first":
        return True
    place = {v: k for k, v in enumerate(g.order)}
    seen, stage = set(), []
    for v in seq:
        stage.append(place[v])
        if v not in seen:
            seen.add(v)
            if stage != sorted(set(stage)):
                return False
            stage = []
    return not stage


# ---- schedules ---------------------------------------------------------------------------------------------------
def sums_of_sets(amounts):
    """by set of nodes, as bits of an integer, the sum of their amounts"""
    sums = [0]
    for amount in amounts:
        sums += [each + amount for each in sums]
    return sums


def kept(size_of, g, must, spare, room):
    """The largest sets that contain `must`, are in must | spare and take at most `room`."""
    if size_of[must | spare] <= room:
        yield must | spare
        return
    if size_of[must] > room:
        return
    c = (spare - 1) & spare
    while True:
        m = size_of[must | c]
        if m <= room and all(m + g.size[u] > room for u in range(g.n) if spare >> u & 1 and not c >> u & 1):
            yield must | c
        if not c:
            return
        c = (c - 1) & spare


class Moves:
    """What may follow a state, with as much kept in memory as the budget allows: dropping later is free as well."""

    def __init__(self, g, mode, limit, budget):
        self.g, self.mode, self.budget = g, mode, budget
        n = g.n
        self.full = (1 << n) - 1
        self.size_of = sums_of_sets(g.size)
        self.inp = [sum(1 << u for u in g.pred[v]) for v in range(n)]
        self.out = {v: sum(1 << w for w in g.outs[v]) for v in g.ops}
        self.prefix = {0}
        acc = 0
        for v in g.order:
            acc |= 1 << v
            self.prefix.add(acc)
        self.place = {v: k for k, v in enumerate(g.order)}
        self.lim = g.counts(limit)
        self.idx = {v: k for k, v in enumerate(g.ops)}
        self.zero = (0,) * len(g.ops) if self.lim else ()

    def after(self, there, comp, cnt, cur):
        """(cost of recomputing, there, comp, counts, cursor, nodes listed)"""
        g = self.g
        for f in g.ops:
            fb, outs, need = 1 << f, self.out[f], self.inp[f]
            if (there & fb and outs == fb) or need & ~there:
                continue  # with further outputs f may be there already: it is dropped first, to have those again
            if self.lim:
                k = self.idx[f]
                if cnt[k] >= self.lim[f]:
                    continue
                c2 = cnt[:k] + (cnt[k] + 1,) + cnt[k + 1 :]
            else:
                c2 = cnt
            room = self.budget - self.size_of[outs] - g.ws[f]
            opts = [
                (K | outs, comp | outs, tuple(g.outs[f]))
                for K in kept(self.size_of, g, need, there & ~need & ~outs, room)
            ]
            for u in g.ip[f]:
                opts += [
                    (K & ~(1 << u) | fb, comp | fb, (f,))
                    for K in kept(self.size_of, g, need, there & ~need & ~fb, room + g.size[f])
                ]
            for then, comp2, listed in opts:
                cur2 = -1
                if self.mode != "free":
                    if comp2 not in self.prefix:
                        continue
                    if self.mode == "staged":
                        if comp2 == comp:
                            if self.place[f] <= cur:
                                continue
                            cur2 = self.place[listed[-1]]
                        elif comp & fb:  # f again, with a further output for the first time: out of a stage's order
                            continue
                yield (g.dur[f] if comp & fb else 0), then, comp2, c2, cur2, listed


MOST_STATES = 60_000


def best(g, budget, mode="free", limit=None, most=None):
    """(duration, sequence) or None (infeasible); MemoryError: too many states."""
    if limit is not None:  # without limits first: often that is within them
        r = best(g, budget, mode, None, most)
        if r is None or in_scope(g, r[1], mode, limit):
            return r
    mv, tie = Moves(g, mode, limit, budget), count()
    heap, settled, seen = [(0, 0, 0, 0, 0, 0, mv.zero, -1, None)], {}, 0
    while heap:
        d, _, _, _, there, comp, cnt, cur, trail = heapq.heappop(heap)
        known = settled.setdefault((there, comp, cur), [])
        if any(all(x <= y for x, y in zip(o, cnt, strict=True)) for o in known):
            continue
        known.append(cnt)
        seen += 1
        if seen > (most or MOST_STATES):
            raise MemoryError("too many states")
        if comp == mv.full:
            seq = []
            while trail:
                trail, listed = trail
                seq += reversed(listed)
            return d + g.total, seq[::-1]
        for c, then, comp2, c2, cur2, listed in mv.after(there, comp, cnt, cur):
            heapq.heappush(
                heap, (d + c, -bin(comp2).count("1"), sum(c2), next(tie), then, comp2, c2, cur2, (trail, listed))
            )
    return None


def least_peak(g, mode="free", limit=None):
    """The least budget that some schedule fits; None: none does whatever the budget."""
    sums = {0}
    for s in g.size:
        sums |= {x + s for x in sums}
    levels = sorted(
        {
            x + w
            for x in sums
            for w in {g.ws[v] + k * sum(g.size[o] for o in g.outs[v][1:]) for v in g.ops for k in (0, 1)}
        }
    )
    lo, hi = 0, len(levels) - 1
    if best(g, levels[hi], mode, limit) is None:
        return None
    while lo < hi:
        mid = (lo + hi) // 2
        if best(g, levels[mid], mode, limit) is None:
            lo = mid + 1
        else:
            hi = mid
    return levels[lo]


# ---- arenas ------------------------------------------------------------------------------------------------------
def _dijkstra(start, after, done, most=3_000_000):
    tie = count()
    heap = [(0, next(tie), start, None)]
    seen = set()
    while heap:
        d, _, s, trail = heapq.heappop(heap)
        if s in seen:
            continue
        seen.add(s)
        if len(seen) > most:
            raise MemoryError
        if done(s):
            steps = []
            while trail:
                trail, st = trail
                steps.append(st)
            return d, steps[::-1]
        for c, s2, st in after(s):
            if s2 not in seen:
                heapq.heappush(heap, (d + c, next(tie), s2, (trail, st) if st is not None else trail))
    return None


def arena_best(g, arena, align=1, limit=2, mode="free", most=3_000_000):
    """Least duration with offsets within `arena`; copies do not move. Workspaces and outputs have offsets; in place the
    output lies at the offset of what it overwrites. A state is copies with offsets: for tiny graphs only."""
    n = g.n
    lim = g.counts(limit)
    prefix = {0}
    acc = 0
    for v in g.order:
        acc |= 1 << v
        prefix.add(acc)
    place = {v: k for k, v in enumerate(g.order)}

    def after(s):
        there, comp, cnt, cur = s
        resident = dict(there)
        for v in resident:
            yield 0, (tuple(p for p in there if p[0] != v), comp, cnt, cur), None
        for f in g.ops:
            if f in resident or any(u not in resident for u in g.pred[f]) or (lim and cnt[f] >= lim[f]):
                continue
            c2 = cnt[:f] + (cnt[f] + 1,) + cnt[f + 1 :]
            cells = [(o, g.size[v]) for v, o in there]
            want = [("o", w) for w in g.outs[f]] + ([("w", f)] if g.ws[f] else [])

            opts = []
            if not any(w in resident for w in g.outs[f]):
                for got in set(_placements(g, want, cells, arena, align)):
                    opts.append((got, None))
            for u in g.ip[f]:
                rest = [("o", w) for w in g.outs[f][1:]] + ([("w", f)] if g.ws[f] else [])
                if next(_placements(g, rest, cells, arena, align), None) is not None:
                    opts.append((((f, resident[u]),), u))
            for got, u in opts:
                then = tuple(sorted([p for p in there if p[0] != u and p[0] not in dict(got)] + list(got)))
                comp2 = comp | sum(1 << w for w, _ in got)
                cur2 = -1
                if mode != "free":
                    if comp2 not in prefix:
                        continue
                    if mode == "staged" and comp2 == comp:
                        if place[f] <= cur:
                            continue
                        cur2 = place[got[-1][0]]
                yield g.dur[f], (then, comp2, c2, cur2), tuple(w for w, _ in got)

    full = (1 << n) - 1
    return _dijkstra(((), 0, (0,) * n, -1), after, lambda s: s[1] == full, most)


def _placements(g, want, cells, arena, align, got=()):
    """All ways to place outputs ("o", node) and a workspace ("w", node) where nothing lies; offsets of the outputs."""
    if not want:
        yield got
        return
    (kind, w), *rest = want
    size = g.size[w] if kind == "o" else g.ws[w]
    for o in range(0, arena - size + 1, align) if size else (0,):
        if not size or all(o + size <= a or a + b <= o for a, b in cells):
            taken = cells + [(o, size)] if size else cells
            yield from _placements(g, rest, taken, arena, align, got + ((w, o),) if kind == "o" else got)


def layout_flaw(boxes, offsets):
    """Why offsets are wrong; "" if nothing overlaps. A box: size, alignment, [(start, end, from byte, to byte)]."""
    for i, (_, align, pieces) in enumerate(boxes):
        if offsets[i] < 0 or offsets[i] % align:
            return f"buffer {i}: offset {offsets[i]} is not aligned"
        for j in range(i):
            for one, other in product(pieces, boxes[j][2]):
                if _meet(one, other, 0, 0) and _meet(one[2:], other[2:], offsets[i], offsets[j]):
                    return f"buffers {j} and {i} overlap at time {max(one[0], other[0])}"
    return ""


def _meet(one, other, at, there):
    return max(one[0] + at, other[0] + there) < min(one[1] + at, other[1] + there)


def least_arena(boxes, fixed, upper):
    """The least arena, which every aligned offset was tried for; `fixed`: an offset or None for each box."""
    order = sorted(range(len(boxes)), key=lambda i: (fixed[i] is None, -boxes[i][0]))

    def fits(arena, k, placed):
        if k == len(order):
            return True
        i = order[k]
        size, align, _ = boxes[i]
        for o in [fixed[i]] if fixed[i] is not None else range(0, arena - size + 1, align):
            now = {**placed, i: o}
            if size and o + size > arena or layout_flaw([boxes[j] for j in now], list(now.values())):
                continue
            if fits(arena, k + 1, now):
                return True
        return False

    return next((arena for arena in range(upper + 1) if fits(arena, 0, {})), None)
