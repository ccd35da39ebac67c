"""Training steps on a GPU by plans, checkpoints and `torch.compile`: memory, time, and whether they are equal.

    python scripts/bench_gpu.py [NET ...] [--budgets 0.9,0.7,0.5] [--time-limit 5] [--turns 5] [--seconds 360]
                                [--device cuda] [--small]

One row for each network, method and budget, a fraction of the eager step's peak, above parameters, buffers and inputs.
"llama-1b" has about a billion parameters, in bfloat16, and is run first, next to checkpoints of every block, at whose
peak there is a plan too, and to `torch.compile` with its `activation_memory_budget`. After `--seconds` no row is begun.

- predicted, measured, eager: peaks at the allocator in MB (`max_memory_allocated` on CUDA)
- time, predicted: percent over eager, the median ratio of `--turns` turns, and the plan's prediction
- equal: loss and gradients are those of eager, bit for bit, and a plan's buffers and random state (deterministic
  kernels, and recurrent layers as cells, without cuDNN, as they are traced)
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Any

import torch
from execution_nets import NETS, Blocks, Gpt, Llama, Lstm, Mlp, Net, ResNet, UNet, pictures, tokens
from row_tables import print_columns

from moccasin_mzn.pytorch import NoPlanError, plan
from moccasin_mzn.pytorch.measuring import allocator_peak, time_of

MEGABYTE = 10**6
HEADINGS = (
    "net", "method", "budget", "predicted MB", "measured MB", "eager MB", "time %", "predicted %", "equal",
)  # fmt: skip
BILLION = "llama-1b"
LARGE = {
    "mlp": Net(lambda _: Mlp(4096, 12, 1000), lambda _: (torch.randn(8192, 4096), torch.randint(1000, (8192,)))),
    "resnet": Net(lambda _: ResNet(64, 3, 10), lambda _: pictures(256, 64)),
    "gpt": Net(lambda _: Gpt(1024, 6, 32000, 1024), lambda _: tokens(8, 1024, 32000)),
    "unet": Net(lambda _: UNet(64, 10), lambda _: pictures(8, 256, 256, 256)),
    "llama": Net(lambda _: Llama(1024, 6, 32000, 1024), lambda _: tokens(8, 1024, 32000)),
    "lstm": Net(lambda _: Lstm(1024, 10), lambda _: (torch.randn(128, 32, 1024), torch.randint(10, (128,))), False),
    BILLION: Net(
        lambda _: Llama(2048, 16, 32000, 2048, heads=16).to(torch.bfloat16), lambda _: tokens(4, 2048, 32000)
    ),
}  # fmt: skip
"""The networks of `execution_nets.py`, of a size that keeps a data-centre card busy."""
SMALL = {**NETS, BILLION: Net(lambda _: Llama(16, 2, 20, 8).to(torch.bfloat16), lambda _: tokens(2, 8, 20))}
COMPILED = ("1.0", "0.5")
"""Budgets of `torch.compile`, fractions of the activations' memory by its own measure."""

Call = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Trained:
    """A network, its data and what a step of it takes without a plan."""

    name: str
    model: Blocks
    data: list[torch.Tensor]
    device: str
    turns: int
    peak: int
    """Bytes at the allocator."""

    @classmethod
    def of(cls, name: str, net: Net, arguments: argparse.Namespace) -> Trained:
        torch.manual_seed(0)
        model = net.make(arguments.small).to(arguments.device)
        data = [each.to(arguments.device) for each in net.data(arguments.small)]
        peak = allocator_peak(lambda: step(model, model, data), arguments.device)
        return cls(name, model, data, arguments.device, arguments.turns, peak)

    def row(self, method: str, budget: str, call: Call, own: Blocks, found: Any = None) -> tuple[str, ...]:
        """A row of the table: what a method takes, whose parameters `own` has; `found` is the plan, if it is one."""
        if found is None:
            predicted, expected = "-", "-"
            peak = allocator_peak(lambda: step(call, own, self.data), self.device)
            equal = same(results(call, own, self.data), results(self.model, self.model, self.data))
        else:
            verified = found.verify(self.data)
            predicted, expected = megabytes(verified.predicted_peak), percent(found.predicted_increase)
            peak, equal = verified.peak, verified.equal
        over = percent(self.over(call, own))
        answer = "yes" if equal else "no"
        return (self.name, method, budget, predicted, megabytes(peak), megabytes(self.peak), over, expected, answer)

    def over(self, call: Call, own: Blocks) -> float:
        """Time of a step over one of eager, less 1: the median of turns, each after a step of its own."""
        ratios = []
        for _ in range(self.turns):
            took = []
            for each, state in ((self.model, self.model), (call, own)):
                step(each, state, self.data)
                began = time_of(self.device)
                step(each, state, self.data)
                took.append(time_of(self.device) - began)
            ratios.append(took[1] / took[0])
        return median(ratios) - 1


def main() -> None:
    arguments = parse()
    end = time.monotonic() + arguments.seconds
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    name = torch.cuda.get_device_name(arguments.device) if arguments.device.startswith("cuda") else arguments.device
    print(f"PyTorch {torch.__version__}, {name}\n", flush=True)
    nets = arguments.nets or [BILLION, *NETS]
    found = (row for net in nets for row in rows(net, arguments, lambda: time.monotonic() > end))
    print_columns(HEADINGS, found, left=("net", "method", "budget", "equal"))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", choices=[*LARGE, []])
    parser.add_argument("--budgets", default="0.9,0.7,0.5", help="of plans")
    parser.add_argument("--time-limit", type=float, default=5.0, help="seconds to search for each plan")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=360.0, help="after so many no row is begun")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny networks, to see whether all works")
    return parser.parse_args()


def rows(name: str, arguments: argparse.Namespace, over: Callable[[], bool]) -> Iterator[tuple[str, ...]]:
    """One network by all methods, from the same parameters and data."""
    net = (SMALL if arguments.small else LARGE)[name]
    if over():
        print(f"{name}: no time is left", file=sys.stderr)
        return
    with torch.backends.cudnn.flags(enabled=net.onednn, benchmark=False, deterministic=True):
        trained = Trained.of(name, net, arguments)
        budgets: dict[str, str | Fraction] = {budget: budget for budget in arguments.budgets.split(",")}
        if name == BILLION and not over():
            own = copy.deepcopy(trained.model)
            own.checkpointed = True
            yield trained.row("checkpoints", "every block", own, own)
            peak = allocator_peak(lambda: step(own, own, trained.data), trained.device)
            of_checkpoints = min(Fraction(1), Fraction(peak, trained.peak))  # of a tiny network they may take more
            budgets = {"of checkpoints": of_checkpoints, **budgets}
        for budget, amount in budgets.items():
            if not over():
                yield planned(trained, budget, amount, arguments.time_limit)
        for budget in COMPILED if name == BILLION else ():
            if not over():
                yield compiled(trained, budget)


def planned(trained: Trained, budget: str, amount: str | Fraction, time_limit: float) -> tuple[str, ...]:
    """The row of a plan."""
    own = copy.deepcopy(trained.model)
    try:
        found = plan(own, trained.data, budget=amount, time_limit=time_limit, seed=0, search="only")
    except NoPlanError as error:
        print(f"{trained.name} {budget}: {error}", file=sys.stderr)
        return (trained.name, "plan", budget, *5 * ("-",), "no plan")
    return trained.row("plan", budget, found.module(), own, found)


def compiled(trained: Trained, budget: str) -> tuple[str, ...]:
    """The row of `torch.compile`, which decides what it keeps when the network is called first."""
    from torch._functorch import config

    torch.compiler.reset()
    own = copy.deepcopy(trained.model)
    call = torch.compile(own, backend="inductor" if trained.device.startswith("cuda") else "aot_eager")
    with config.patch(activation_memory_budget=float(budget), enable_autograd_cache=False):
        step(call, own, trained.data)
    return trained.row("torch.compile", budget, call, own)


def step(call: Call, own: Blocks, data: list[torch.Tensor]) -> None:
    """One step of training without the optimizer; no gradients are left."""
    call(*data).backward()
    own.zero_grad(set_to_none=True)


def results(call: Call, own: Blocks, data: list[torch.Tensor]) -> list[torch.Tensor]:
    """Loss and gradients, of the same random numbers for all methods."""
    torch.manual_seed(1)
    loss = call(*data)
    loss.backward()
    found = [loss.detach(), *(parameter.grad.clone() for parameter in own.parameters())]
    own.zero_grad(set_to_none=True)
    return found


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(map(torch.equal, one, other))


def megabytes(amount: int) -> str:
    return f"{amount / MEGABYTE:,.1f}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


if __name__ == "__main__":
    main()
