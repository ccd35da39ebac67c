"""Random buffers and random schedules for the tests of addresses."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.arena import Buffer
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate


def draw_buffers(seed: int, most: int = 5) -> tuple[tuple[Buffer, ...], int]:
    """Up to `most` buffers, and an alignment; some are of size 0, some begin where others end."""
    rng = random.Random(seed)
    buffers = []
    for number in range(rng.randint(1, most)):
        start = rng.randint(0, 6)
        buffers.append(Buffer(f"b{number}", start, start + rng.randint(1, 5), rng.randint(0, 9)))
    return tuple(buffers), rng.choice([1, 1, 2, 4])


def draw_instance(seed: int) -> tuple[Instance, int]:
    """An instance of up to 5 nodes, and an alignment; for many, what fits the memory does not fit the arena."""
    rng = random.Random(seed)
    n = rng.choice([3, 4, 5, 5, 5])
    order = rng.sample(range(n), n)
    edges = [(order[i], order[j]) for j in range(n) for i in range(j) if rng.random() < (0.8 if j == i + 1 else 0.45)]
    graph = ComputationGraph(
        range(n), [rng.randint(0, 9) for _ in range(n)], [rng.randint(0, 5) for _ in range(n)], edges, order
    )
    least, most = graph.largest_working_set().memory, simulate(graph, order).peak
    if most - least < 2 or most == 0:
        return draw_instance(seed + 1_000_000)
    budget, alignment = rng.randint(max(1, least), most + 1), rng.choice([1, 1, 2, 3])
    return Instance.build(graph, budget, max_computations=rng.choice([1, 2, 2, 2, 3])), alignment


names = st.text("abc_#,'\" é", min_size=0, max_size=5)


@st.composite
def buffer_sets(draw: st.DrawFn, most: int = 12) -> tuple[Buffer, ...]:
    """Buffers with any names, lifespans and alignments."""
    buffers = []
    for name in draw(st.lists(names, max_size=most, unique=True)):
        start, life = draw(st.integers(0, 20)), draw(st.integers(1, 20))
        size, alignment = draw(st.integers(0, 50)), draw(st.sampled_from([1, 1, 1, 2, 3, 8]))
        buffers.append(Buffer(name, start, start + life, size, alignment))
    return tuple(buffers)
