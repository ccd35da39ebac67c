"""The Pareto frontier of memory and duration: what every budget costs, and whether that is proven.

$ python examples/budget_sweep.py
budget  duration  increase  status
    10        36     12.5%  optimal
...
    18        32      0.0%  optimal
"""

import moccasin_mzn as mz


def training_chain(length: int) -> mz.ComputationGraph:
    """A chain of layers, and its backward pass, which reads the outputs of the layers in reverse."""
    nodes = [f"forward{i}" for i in range(length)] + [f"backward{i}" for i in reversed(range(length))]
    chain = [(i, i + 1) for i in range(len(nodes) - 1)]
    saved = [(i, len(nodes) - 1 - i) for i in range(length - 1)]
    return mz.ComputationGraph(
        nodes=tuple(nodes),
        durations=(1,) * length + (3,) * length,
        sizes=(2,) * len(nodes),
        edges=tuple(sorted(chain + saved)),
        name="training chain",
    )


def main() -> None:
    frontier = mz.frontier(training_chain(8), points=20, time_limit=60, seed=0)
    print("budget  duration  increase  status")
    for point in frontier.records():
        print("{budget:6}  {duration:8}  {tdi_percent:7.1f}%  {status}".format(**point))
    # frontier.plot("frontier.html") draws it


if __name__ == "__main__":
    main()
