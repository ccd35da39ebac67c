"""Offsets in one arena: for buffers whose lifespans are known, and for a schedule together with its recomputations.

$ python examples/allocate_offsets.py
arena 13, most in use at a time 13
offsets {'input': 6, ...}
x: steps 1 to 2, offset ...
...
"""

import moccasin_mzn as mz

BUFFERS = [
    mz.Buffer("input", start=0, end=3, size=4),  # in use from time 0 until just before time 3
    mz.Buffer("conv1", start=1, end=4, size=6),
    mz.Buffer("conv2", start=2, end=6, size=3),
    mz.Buffer("add", start=5, end=8, size=6),
    mz.Buffer("output", start=7, end=9, size=2, offset=0),  # which has to lie there
]
GRAPH = mz.ComputationGraph(
    nodes=("x", "a", "b", "c", "z"),
    durations=(5, 1, 1, 1, 1),
    sizes=(2, 2, 6, 2, 2),
    edges=((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)),
)


def main() -> None:
    arena = mz.allocate(BUFFERS, alignment=2, time_limit=60)
    in_use = max(sum(b.size for b in BUFFERS if b.start <= time < b.end) for time in range(9))
    print(f"arena {arena.size}, most in use at a time {in_use}")
    print("offsets", arena.offsets)

    result = mz.solve(GRAPH, 8, addresses=True, alignment=2, time_limit=60)
    for interval in result.records():
        print("{node}: steps {start} to {end}, offset {offset}".format(**interval))


if __name__ == "__main__":
    main()
