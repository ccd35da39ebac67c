"""A MiniZinc model of your own: the staged model, and one more constraint.

$ python examples/own_model.py
staged model: duration 52, recomputed: forward1
own model: duration 53, recomputed: ...
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import moccasin_mzn as mz

MODEL = """
include "staged.mzn";

% Convolutions are never recomputed, which here are the nodes that take more than 2.
constraint forall(c in RECOMPUTATION where duration[node[c]] > 2)(not active[c]);
"""


def graph() -> mz.ComputationGraph:
    """Six layers and their backward pass, which reads the outputs of the layers in reverse."""
    nodes = [f"forward{i}" for i in range(6)] + [f"backward{i}" for i in reversed(range(6))]
    chain = [(i, i + 1) for i in range(11)]
    saved = [(i, 11 - i) for i in range(5)]
    return mz.ComputationGraph(
        nodes=tuple(nodes),
        durations=(2, 3, 2, 2, 2, 2) + (6,) * 6,
        sizes=(2, 6, 2, 2, 2, 2) + (2,) * 6,
        edges=tuple(sorted(chain + saved)),
    )


def show(name: str, result: mz.Result) -> None:
    again = [node for node in graph().nodes if result.sequence.count(node) > 1]
    print(f"{name}: duration {result.duration}, recomputed:", *again)


def main() -> None:
    show("staged model", mz.solve(graph(), 15, time_limit=60))
    with TemporaryDirectory() as folder:
        model = Path(folder) / "no_convolutions.mzn"
        model.write_text(MODEL)
        show("own model", mz.solve(graph(), 15, model=str(model), time_limit=60))


if __name__ == "__main__":
    main()
