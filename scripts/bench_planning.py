"""How long it takes to plan a training step of a large network, and how much memory, without running the network.

    python scripts/bench_planning.py [NET ...] [--budget 0.5] [--time-limit 40] [--threads N] [--real] [--small]

NET is gpt2 (124M parameters, batches of 4 x 1024), llama (32 blocks of width 1024, batches of 2 x 512, gradients
accumulated), gpt2-xl (48 blocks of width 1600, batches of 1 x 1024, accumulated) or llama-80 (80 blocks), by default
gpt2 and llama, each in a process of its own. Networks have no values, unless `--real`: then parameters
are made. Durations are by FLOP.

- load: seconds until PyTorch is there; plan: from the network to the plan; trace: of that, to the graph to be planned
- emit: from the plan to the module that runs it
- over: percent that a step takes longer; gap: percent that it might be shorter, as far as is proven
- MB: of what a step takes without the plan, and with it
- process: the most memory that planning took, in MB, PyTorch and what `--real` makes included
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from row_tables import print_columns

MEGABYTE = 10**6
_COLUMNS = {
    "net": "net", "nodes": "nodes", "load": "load s", "trace": "trace s", "plan": "plan s", "emit": "emit s",
    "status": "status", "over": "over %", "gap": "gap %", "before": "MB before", "peak": "MB", "process": "process MB",
}  # fmt: skip


@dataclass(frozen=True)
class Large:
    """A network and what it is trained on."""

    make: Callable[[Any, bool], Any]
    """From `execution_nets`, and whether it is to be small."""
    shape: Callable[[bool], tuple[int, int]]
    """The shape of the batches of tokens."""
    gradients: str


def gpt(blocks: int, width: int, heads: int, batch: int, gradients: str) -> Large:
    """A GPT with sequences of 1024."""
    return Large(
        lambda nets, small: nets.Gpt(16, SMALL, 40, 8) if small else nets.Gpt(width, blocks, 50257, 1024, heads),
        lambda small: (16, 8) if small else (batch, 1024),
        gradients,
    )


def llama(blocks: int) -> Large:
    """A network like Llama, two sequences of 512."""
    return Large(
        lambda nets, small: nets.Llama(16, SMALL, 40, 8) if small else nets.Llama(1024, blocks, 32000, 512),
        lambda small: (16, 8) if small else (2, 512),
        "accumulated",
    )


SMALL = 2
"""Blocks of small networks."""
NETS = {
    "gpt2": gpt(12, 768, 12, 4, "returned"),
    "llama": llama(32),
    "gpt2-xl": gpt(48, 1600, 25, 1, "accumulated"),
    "llama-80": llama(80),
}
"""The networks by name."""
USUAL = ("gpt2", "llama")
"""The networks that are planned if none is named."""


def main() -> None:
    arguments = parse()
    if arguments.alone:
        print(json.dumps(figures(arguments.nets[0], arguments)))
        return
    found = (in_a_process(name) for name in arguments.nets or USUAL)
    rows = ([text(row.get(key, "-")) for key in _COLUMNS] for row in found)
    print_columns(tuple(_COLUMNS.values()), rows, left=("net", "status"))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", choices=[*NETS, []])
    parser.add_argument("--budget", default="0.5", help="as `plan` takes it")
    parser.add_argument("--time-limit", type=float, default=40.0, help="seconds for the search")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--real", action="store_true", help="parameters with values")
    parser.add_argument("--small", action="store_true", help="tiny networks, to see whether all works")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_a_process(name: str) -> dict[str, Any]:
    """The figures of a network, in a process that does nothing else."""
    words = [sys.executable, __file__, *(word for word in sys.argv[1:] if word not in NETS), name, "--alone"]
    reported = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(reported.stdout.splitlines()[-1])


def figures(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What planning takes here; seconds on the clock, memory in bytes."""
    clock = Clock()
    import execution_nets
    import torch

    from moccasin_mzn.pytorch import PlanError, plan
    from moccasin_mzn.pytorch.call import Form, Step, Structure
    from moccasin_mzn.pytorch.tracing import Traced

    load = clock.lap()
    net = NETS[name]
    with torch.device("cpu" if arguments.real else "meta"):
        model = net.make(execution_nets, arguments.small)
    x = torch.empty(net.shape(arguments.small), dtype=torch.long, device="meta")
    clock.lap()
    structure, tensors = Structure.of(((x, x), {}))
    Traced.of(Step(model), structure, [Form.of(each) for each in tensors], net.gradients)
    trace = clock.lap()
    budget = arguments.budget
    reported = {"net": name, "load": load, "trace": trace, "status": "none"}
    try:
        found = plan(
            model, (x, x), budget=float(budget) if budget.replace(".", "", 1).isdigit() else budget, seed=0,
            time_limit=arguments.time_limit, threads=arguments.threads, gradients=net.gradients,
        )  # fmt: skip
        planned = clock.lap()
        found.module()
        reported |= {
            "nodes": len(found.graph.nodes), "plan": planned, "emit": clock.lap(), "status": found.status,
            "over": 100 * found.predicted_increase, "before": found.unplanned.whole, "peak": found.predicted_peak,
            "gap": 100 * (1 - (1 + found.bound) / (1 + found.predicted_increase)),
        }  # fmt: skip
    except PlanError as error:
        print(f"{name} {budget}: {error}", file=sys.stderr)
        reported["plan"] = clock.lap()
    return {**reported, "process": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


class Clock:
    """Seconds since it was looked at before."""

    def __init__(self) -> None:
        self._latest = time.monotonic()

    def lap(self) -> float:
        before, self._latest = self._latest, time.monotonic()
        return self._latest - before


def text(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value / MEGABYTE:,.1f}" if value > MEGABYTE else f"{value:,}"
    return f"{value:.2f}"


if __name__ == "__main__":
    main()
