"""Training steps on a GPU by plans: equal to eager, within the predicted memory, and how long they take.

    python scripts/bench_gpu.py [NET ...] [--budgets 0.9,0.7,0.5] [--time-limit 5] [--steps 9] [--device cuda] [--small]

One row for each network and budget, a fraction of the eager step's peak, above parameters, buffers and inputs:

- predicted, measured, eager: peaks at the allocator in MB, of the plan (predicted, `max_memory_allocated`) and of eager
- time, predicted: percent over eager, the median ratio of `--steps` turns, and the plan's prediction
- equal: loss, gradients, buffers and random state are those of eager, bit for bit (deterministic kernels, and
  recurrent layers as cells, without cuDNN, as they are traced)
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import torch
from execution_nets import NETS, Gpt, Llama, Lstm, Mlp, Net, ResNet, UNet, pictures, tokens

from moccasin_mzn.pytorch import NoPlanError, plan
from moccasin_mzn.pytorch.measuring import time_of
from moccasin_mzn.report.tables import console, plain_table, print_table

MEGABYTE = 10**6
HEADINGS = (
    "net", "budget", "predicted MB", "measured MB", "eager MB", "time %", "predicted %", "status", "equal",
)  # fmt: skip
LARGE = {
    "mlp": Net(lambda _: Mlp(4096, 12, 1000), lambda _: (torch.randn(8192, 4096), torch.randint(1000, (8192,)))),
    "resnet": Net(lambda _: ResNet(64, 3, 10), lambda _: pictures(256, 64)),
    "gpt": Net(lambda _: Gpt(1024, 6, 32000, 1024), lambda _: tokens(8, 1024, 32000)),
    "unet": Net(lambda _: UNet(64, 10), lambda _: pictures(8, 256, 256, 256)),
    "llama": Net(lambda _: Llama(1024, 6, 32000, 1024), lambda _: tokens(8, 1024, 32000)),
    "lstm": Net(lambda _: Lstm(1024, 10), lambda _: (torch.randn(128, 32, 1024), torch.randint(10, (128,))), False),
}  # fmt: skip
"""The networks of `execution_nets.py`, of a size that keeps a data-centre card busy."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", choices=[*NETS, []])
    parser.add_argument("--budgets", default="0.9,0.7,0.5")
    parser.add_argument("--time-limit", type=float, default=5.0, help="seconds to search for each plan")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny networks, to see whether all works")
    arguments = parser.parse_args()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    name = torch.cuda.get_device_name(arguments.device) if arguments.device.startswith("cuda") else arguments.device
    print(f"PyTorch {torch.__version__}, {name}\n", flush=True)
    table = plain_table(None, HEADINGS, left=("net", "budget", "status", "equal"))
    for net in arguments.nets or NETS:
        for row in rows(net, arguments):
            table.add_row(*row)
            print("  ".join(row), file=sys.stderr, flush=True)
    print_table(console(sys.stdout), table)


def rows(name: str, arguments: argparse.Namespace) -> Iterator[Sequence[str]]:
    """One network at all budgets, from the same parameters and data."""
    torch.manual_seed(0)
    net = (NETS if arguments.small else LARGE)[name]
    eager = net.make(arguments.small).to(arguments.device)
    data = [each.to(arguments.device) for each in net.data(arguments.small)]
    with torch.backends.cudnn.flags(enabled=net.onednn, benchmark=False, deterministic=True):
        for budget in arguments.budgets.split(","):
            try:
                yield row(name, eager, data, budget, arguments)
            except NoPlanError as error:
                print(f"{name} {budget}: {error}", file=sys.stderr)
                yield name, budget, *5 * ("-",), "no plan", "-"


def row(name: str, eager: torch.nn.Module, data: list[torch.Tensor], budget: str, arguments: argparse.Namespace):
    own = copy.deepcopy(eager)
    found = plan(own, data, budget=budget, time_limit=arguments.time_limit, seed=0, search="only")
    reported = found.verify(data)
    over = percent_over(found.module(), eager, data, arguments)
    peaks = (f"{peak / MEGABYTE:,.1f}" for peak in (reported.predicted_peak, reported.peak, reported.eager_peak))
    times = (f"{100 * share:.1f}" for share in (over, found.predicted_increase))
    equal = "yes" if reported.equal else f"no: {', '.join(reported.unequal[:3])}"
    return name, budget, *peaks, *times, found.status, equal


def percent_over(call: Callable, eager: torch.nn.Module, data: list[torch.Tensor], arguments: argparse.Namespace):
    """Time of a step with the plan over one without, less 1: the median of turns, each after a step of its own."""
    ratios = []
    for _ in range(arguments.steps):
        took = []
        for step in (eager, call):
            for _ in range(2):
                began = time_of(arguments.device)
                step(*data).backward()
                seconds = time_of(arguments.device) - began
            took.append(seconds)
            for module in (eager, call):
                if isinstance(module, torch.nn.Module):
                    module.zero_grad(set_to_none=True)
        ratios.append(took[1] / took[0])
    return median(ratios) - 1


if __name__ == "__main__":
    main()
