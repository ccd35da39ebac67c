"""Is what an operator is said to read all that it needs, and does it need it? It runs on random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from moccasin_mzn.graphs.operators import Operator, Read

Box = Sequence[tuple[int, int]]
Run = Callable[[list[np.ndarray]], np.ndarray]


def places_read(read: Read, box: Box) -> list[np.ndarray]:
    """Along each axis of an input the places that a box of the output reads."""
    return [
        np.arange(extent) if reach is None else reach.places(*box[reach.axis], extent)
        for extent, reach in zip(read.shape, read.axes, strict=True)
    ]


def random_box(shape: Sequence[int], random: np.random.Generator) -> Box:
    """Some places along each axis, mostly few."""
    starts = [int(random.integers(extent)) for extent in shape]
    return [(at, int(random.integers(at, min(extent, at + 3)) + 1)) for at, extent in zip(starts, shape, strict=True)]


def values(array: np.ndarray, box: Box) -> bytes:
    """What stands in a box, bit for bit."""
    return array[tuple(slice(*each) for each in box)].tobytes()


def assert_sufficient(operator: Operator, run: Run, given: list[np.ndarray], other: list[np.ndarray], box: Box) -> None:
    """A box of the output is the same, bit for bit, whatever stands where it reads nothing."""
    put_out = run(given)
    assert put_out.shape == operator.shape
    changed = []
    for read, value, new in zip(operator.reads, given, other, strict=True):
        assert read.shape == value.shape
        kept = np.zeros(value.shape, bool)
        kept[np.ix_(*places_read(read, box))] = True
        changed.append(np.where(kept, value, new).astype(value.dtype))
    assert values(run(changed), box) == values(put_out, box), (operator, box)


def assert_needed(operator: Operator, run: Run, given: list[np.ndarray], other: list[np.ndarray], box: Box) -> None:
    """A box of the output changes with what stands in any one place along any one axis, of those that it reads."""
    before = values(run(given), box)
    for which, read in enumerate(operator.reads):
        places = places_read(read, box)
        for axis, found in enumerate(places) if all(map(len, places)) else ():
            for at in found:
                changed = [value.copy() for value in given]
                here = np.ix_(*(places[:axis] + [np.array([at])] + places[axis + 1 :]))
                changed[which][here] = other[which][here]
                assert values(run(changed), box) != before, (operator, box, which, axis, at)


def read_share(operator: Operator, box: Box) -> float:
    """The share of its inputs that a box reads."""
    read = sum(np.prod([len(each) for each in places_read(one, box)]) for one in operator.reads)
    return float(read) / max(1, sum(np.prod(one.shape) for one in operator.reads))


# --- Random numbers -------------------------------------------------------------------------------------------


def drawn(random: np.random.Generator, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Random numbers, none of them 0."""
    if dtype is bool:
        return random.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        return random.integers(1, 100, shape).astype(dtype)
    return np.asarray(random.uniform(0.5, 2, shape) * random.choice([-1, 1], shape), dtype)


def unlike(random: np.random.Generator, value: np.ndarray) -> np.ndarray:
    """Other numbers; integers are larger, so that sums of them are."""
    if value.dtype == bool:
        return ~value
    if np.issubdtype(value.dtype, np.integer):
        return value + random.integers(1, 50, value.shape).astype(value.dtype)
    return drawn(random, value.shape, value.dtype.type)
