"""Two memories: what does not fit is recomputed, or written to slow memory and read back, whichever costs less.

$ python examples/two_memories.py
recomputation alone: duration 208, optimal
with slow memory: duration 204, optimal, peaks {'local': 10, 'slow': 4}
forward1 is written to slow memory in step 4, read until step 12
forward2 is written to slow memory in step 6, read until step 13
"""

import moccasin_mzn as mz


def graph() -> mz.ComputationGraph:
    """Six layers and their backward pass, which reads the outputs of the layers in reverse."""
    nodes = [f"forward{i}" for i in range(6)] + [f"backward{i}" for i in reversed(range(6))]
    chain = [(i, i + 1) for i in range(11)]
    saved = [(i, 11 - i) for i in range(5)]
    durations = (8,) * 6 + (24,) * 6
    return mz.ComputationGraph(tuple(nodes), durations, (2,) * 12, tuple(sorted(chain + saved)))


def main() -> None:
    alone = mz.solve(graph(), 10, time_limit=60)
    print(f"recomputation alone: duration {alone.duration}, {alone.status}")

    costs = mz.PagingCosts(out_time=1, in_time=2)  # for a unit of size: to write it to slow memory, to read it back
    both = mz.solve(graph(), 10, paging=costs, time_limit=60)
    print(f"with slow memory: duration {both.duration}, {both.status}, peaks {both.peaks}")

    for interval in both.records():  # a copy of an output in a memory, each
        if interval["memory"] == "slow":
            print("{node} is written to slow memory in step {start}, read until step {end}".format(**interval))


if __name__ == "__main__":
    main()
