"""Random graphs of layers in parts, and the sequence of a streaming plan straight from the definition, by recursion."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.streaming.generator import ALL, BAND, GROUP, KEPT, PIECE, ROLE, SIZE, STRIP, TARGET, WAVE
from moccasin_mzn.heuristics.streaming.layers import Layers


def drawn_layers(seed: int, most: int = 7) -> tuple[ComputationGraph, Layers]:
    """A random graph of at most `most` layers; a part reads a window of one earlier layer or two, mostly the latest."""
    draw = random.Random(seed)
    shapes = [(draw.randint(1, 4), draw.randint(1, 3)) for _ in range(draw.randint(2, most))]
    places = [(x, b, c) for x, (bands, columns) in enumerate(shapes) for b in range(bands) for c in range(columns)]
    number = {place: v for v, place in enumerate(places)}
    edges = set()
    for x, (bands, columns) in enumerate(shapes[1:], start=1):
        sources = {x - 1 if draw.random() < 0.8 else draw.randrange(x) for _ in range(draw.randint(1, 2))}
        for y in sources:
            reach = draw.randint(0, 1)
            for b in range(bands):
                for c in range(columns):
                    top, left = b * shapes[y][0] // bands, c * shapes[y][1] // columns
                    window = [(top + i, left + j) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1)]
                    edges |= {(number[y, *at], number[x, b, c]) for at in window if (y, *at) in number}
    durations, sizes, workspaces = ([draw.randint(0, 9) for _ in places] for _ in range(3))
    mixed = draw.sample(range(len(places)), len(places)) if seed % 3 == 0 else list(range(len(places)))
    place = {v: at for at, v in enumerate(mixed)}
    graph = ComputationGraph(
        range(len(places)), [durations[v] for v in mixed], [sizes[v] for v in mixed],
        [(place[u], place[v]) for u, v in sorted(edges)], workspaces=[workspaces[v] * (seed % 2) for v in mixed],
    )  # fmt: skip
    return graph, Layers(*(tuple(places[v][axis] for v in mixed) for axis in range(3)))


class Demand:
    """The sequence of a plan, one demand after the other. `held` has what is kept, by how long it is."""

    def __init__(self, graph: ComputationGraph, layers: Layers, plan: Sequence[Sequence[int]]) -> None:
        self.graph, self.layers, self.plan = graph, layers, plan
        self.rank = {v: at for at, v in enumerate(layers.order())}
        self.count = max(layers.layer) + 1
        self.parts = [[v for v in layers.order() if layers.layer[v] == x] for x in range(self.count)]
        self.held: dict[int, set[int]] = {kept: set() for kept in (ALL, BAND, GROUP, PIECE)}
        self.sequence: list[int] = []

    def made(self) -> list[int]:
        """Return the whole sequence."""
        begin = 0
        for x in range(self.count):
            if self.plan[ROLE][x] == TARGET:
                self.held[BAND].clear()
                self.target(begin, x)
                if self.separates(x):
                    self.leftover(begin, x)
                    for kept in (BAND, GROUP, PIECE):
                        self.held[kept].clear()
                    begin = x + 1
        return self.sequence

    def separates(self, x: int) -> bool:
        of = self.layers.layer
        return not any(of[u] < x < of[v] for u, v in self.graph.edges)

    def leftover(self, begin: int, x: int) -> None:
        for y in range(begin, x + 1):
            for v in self.parts[y]:
                if v not in self.sequence:
                    self.need(v)

    def target(self, begin: int, x: int) -> None:
        band_before = None
        for band, group in self.groups(x):
            self.held[GROUP].clear()
            self.held[PIECE].clear()
            if band != band_before:
                self.held[BAND].clear()
            band_before = band
            needed = self.closure(group)
            for y in range(begin, x):
                if self.plan[ROLE][y] == WAVE:
                    self.wave(y, needed)
            self.held[PIECE].clear()
            for v in group:
                self.need(v)

    def wave(self, y: int, needed: set[int]) -> None:
        done = 0
        for v in self.parts[y]:
            if v in needed and not self.is_held(v):
                if done % self.plan[SIZE][y] == 0:
                    self.held[PIECE].clear()
                done += 1
                self.need(v)

    def groups(self, x: int) -> Iterator[tuple[int, list[int]]]:
        """Yield the band, or the strip, and the parts of each group of a target."""
        bands = {v: self.layers.band[v] for v in self.parts[x]}
        each = [list(bands.values()).count(band) for band in set(bands.values())]
        width = each[0] if len(set(each)) == 1 else len(bands)
        columns = {v: at % width for at, v in enumerate(self.parts[x])}
        strip = self.plan[STRIP][x]
        by = {v: bands[v] if strip >= width else columns[v] // strip for v in bands}
        parts = self.parts[x] if strip >= width else sorted(bands, key=lambda v: (by[v], self.rank[v]))
        for at in range(0, len(parts), self.plan[SIZE][x]):
            group = parts[at : at + self.plan[SIZE][x]]
            yield by[group[0]], group

    def is_held(self, v: int) -> bool:
        return v in self.held[self.plan[KEPT][self.layers.layer[v]]]

    def closure(self, parts: Sequence[int]) -> set[int]:
        found, waiting = set(), [v for v in parts if not self.is_held(v)]
        while waiting:
            for u in self.graph.predecessors[waiting.pop()]:
                if u not in found and not self.is_held(u):
                    found.add(u)
                    waiting.append(u)
        return found

    def need(self, v: int) -> None:
        if self.is_held(v):
            return
        for u in sorted(self.graph.predecessors[v], key=self.rank.__getitem__):
            self.need(u)
        self.sequence.append(v)
        self.held[self.plan[KEPT][self.layers.layer[v]]].add(v)
