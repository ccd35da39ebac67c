"""Two devices, each with a memory of its own: a fast one with little memory, and one that is three times slower.

$ python examples/devices.py
optimal: duration 32, peaks {'gpu': 12, 'cpu': 4}
step 1: x in the memory of gpu, until step 3
step 2: x in the memory of cpu, until step 6
...
"""

import moccasin_mzn as mz

GRAPH = mz.ComputationGraph(
    nodes=("x", "a", "b", "c", "d", "z"),
    durations=(7, 4, 9, 2, 3, 1),
    sizes=(4, 3, 6, 2, 3, 1),
    edges=((0, 1), (0, 4), (1, 2), (1, 4), (2, 3), (3, 4), (4, 5)),
)


def main() -> None:
    result = mz.solve(
        GRAPH,
        devices={"gpu": 12, "cpu": mz.Device(slowness=3)},  # no budget for the memory of the second
        copies={"time": 0.5, "latency": 1},  # for a unit of size, and for each copy
        time_limit=60,
    )
    print(f"{result.status}: duration {result.duration}, peaks {result.peaks}")
    for step, interval in enumerate(result.records(), 1):
        print("step {}: {node} in the memory of {memory}, until step {end}".format(step, **interval))


if __name__ == "__main__":
    main()
