"""Random buffers and random schedules for the tests of addresses."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.arena import ArenaError, check_buffers
from moccasin_mzn.problem.buffer import Buffer, Gap
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


def cells_of(buffer: Buffer) -> tuple[int, list[tuple[int, int, int, int]], int | None]:
    """A buffer as `arena_oracle.least_arena_of_cells` takes it: a piece for each time."""
    pieces = []
    for time in range(buffer.start, buffer.end) if buffer.size else ():
        gap = next((gap for gap in buffer.gaps if gap.start <= time < gap.end), None)
        low, high = (0, buffer.size) if gap is None else gap.window or (0, 0)
        pieces.append((time, time + 1, low, high))
    return buffer.size, pieces, buffer.offset


@st.composite
def gaps_of(draw: st.DrawFn, start: int, end: int, size: int, windows: bool = True) -> tuple[Gap, ...]:
    """Up to three gaps within a lifespan, some with windows; some begin where others end."""
    times = sorted(draw(st.sets(st.integers(start, end), max_size=6)))
    gaps = []
    for one, other in zip(times[::2], times[1::2], strict=False):
        window = None
        if windows and size and draw(st.booleans()):
            low = draw(st.integers(0, size - 1))
            window = low, draw(st.integers(low + 1, size))
        gaps.append(Gap(one, other, window))
    return tuple(gaps)


@st.composite
def given_sets(draw: st.DrawFn, most: int = 4, windows: bool = True) -> tuple[tuple[Buffer, ...], int]:
    """A few small buffers, some with gaps, hints or offsets that do not contradict each other, and an alignment."""
    alignment, buffers = draw(st.sampled_from([1, 1, 2, 3])), []
    for number in range(draw(st.integers(1, most))):
        start, life = draw(st.integers(0, 5)), draw(st.integers(1, 6))
        size = draw(st.integers(0, 5))
        gaps = draw(gaps_of(start, start + life, size, windows)) if draw(st.booleans()) else ()
        hint = draw(st.none() | st.integers(0, 12))
        buffer = Buffer(f"b{number}", start, start + life, size, hint=hint, gaps=gaps)
        if draw(st.integers(0, 2)) == 0:
            placed = replace(buffer, offset=alignment * draw(st.integers(0, 4)))
            try:
                check_buffers((*buffers, placed), alignment)
                buffer = placed
            except ArenaError:
                pass
        buffers.append(buffer)
    return tuple(buffers), alignment


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
    """Buffers with any names, lifespans and alignments, no gaps and no offsets."""
    buffers = []
    for name in draw(st.lists(names, max_size=most, unique=True)):
        start, life = draw(st.integers(0, 20)), draw(st.integers(1, 20))
        size, alignment = draw(st.integers(0, 50)), draw(st.sampled_from([1, 1, 1, 2, 3, 8]))
        buffers.append(Buffer(name, start, start + life, size, alignment))
    return tuple(buffers)
