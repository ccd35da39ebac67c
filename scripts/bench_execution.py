"""Training steps within a memory budget: eager, checkpoints, torch.compile and plans next to each other.

    python scripts/bench_execution.py [NET ...] [--budgets 0.9,0.7,0.5] [--aot 1.0,0.5,0.1] [--steps 9] [--small]
                                      [--processes 1] [--plot FILE]

"aot_eager" is `torch.compile` with PyTorch's own `activation_memory_budget`, "aot_eager plan" the same with a backend
of ours, "aot_eager knapsack" with PyTorch's partitioner and a solver of ours: there a budget is a bound. NET is mlp,
resnet, gpt, unet, llama or lstm, by default each of them. One thread, on the CPU.

Budgets are fractions of eager's peak, bytes, "least", or "checkpoint", the peak that was measured of checkpoints.

- predicted: bytes at the allocator by the plan's prediction, and percent of time over eager
- storages: measured peak of what operators return; not for compiled code
- allocator: measured peak with the operators' workspaces, without parameters, buffers and inputs
- ms: CPU time of a step, the median of `--steps`, in each of which all methods take their turn, shuffled
- over: percent over eager, the median of the turns' own ratios: a machine that is slow for a while is slow for both
- of several processes: means of percents, as the same plan may take some percent more or less from one to the next
- the C library keeps memory that is freed (`KEPT`): otherwise steps scatter by some percent
- equal: loss and gradients are those of eager, bit for bit
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from execution_nets import NETS, Net
from execution_picture import Point, write

from moccasin_mzn.pytorch import PlanError, backend, knapsack, plan
from moccasin_mzn.pytorch.measuring import allocator_peak, storage_peak, time_of
from moccasin_mzn.report.tables import console, plain_table, print_table

MEGABYTE = 10**6
KEPT = {"MALLOC_TRIM_THRESHOLD_": "1000000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000000"}
"""For the C library of Linux: it keeps memory that is freed. Otherwise it gives large blocks back, and gets them back
page by page: then the same step takes some percent more or less from one process to the next."""
_HEADINGS = (
    "net", "method", "budget", "predicted MB", "storages MB", "allocator MB", "predicted %", "ms", "over %", "equal",
)  # fmt: skip


@dataclass
class Run:
    """One method on one network."""

    net: str
    method: str
    budget: str
    call: Callable[..., torch.Tensor] | None
    """From inputs to the loss; None: there is no such schedule, or it is reported by another process."""
    state: torch.nn.Module | None = None
    """Whose parameters are trained, with the names that eager has."""
    predicted: int | None = None
    increase: float | None = None
    """Predicted, as a fraction."""
    storage: int | None = None
    allocator: int | None = None
    equal: bool | None = None
    times: list[float] = field(default_factory=list)
    """Seconds."""
    over: float | None = None
    """Percent."""

    @property
    def seconds(self) -> float | None:
        return median(self.times) if self.times else None


def main() -> None:
    arguments = parse()
    os.environ.update(KEPT)
    runs: list[Run] = []
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for name in arguments.nets or NETS:
            found = pool.map(alone, repeat(name, arguments.processes), repeat(arguments))
            runs += map(together, zip(*found, strict=True))
    out = console(sys.stdout)
    print_table(out, table_of(runs))
    if arguments.plot:
        draw(runs, arguments.plot)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", choices=[*NETS, []])
    parser.add_argument("--budgets", default="0.9,0.7,0.5,checkpoint", help="of plans")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds to search for a plan")
    parser.add_argument("--aot", default="1.0,0.5,0.1", help="activation_memory_budget of aot_eager; empty: without")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--processes", type=int, default=1, help="each measures, plans and times all by itself")
    parser.add_argument("--small", action="store_true", help="tiny networks, to see whether all works")
    parser.add_argument("--plot", metavar="FILE", help="time against memory, as a picture")
    return parser.parse_args()


# --- methods ---------------------------------------------------------------------------------------------------


def alone(name: str, arguments: argparse.Namespace) -> list[Run]:
    """What was measured of one network, in a process that has seen no other."""
    torch.set_num_threads(1)
    return [replace(run, call=None, state=None) for run in measured(name, NETS[name], arguments)]


def measured(name: str, net: Net, arguments: argparse.Namespace) -> list[Run]:
    """All methods on one network, from the same parameters, data and random numbers."""
    torch.manual_seed(0)
    model, data = net.make(arguments.small), net.data(arguments.small)
    torch.compiler.reset()
    with torch.backends.mkldnn.flags(enabled=net.onednn), torch._dynamo.config.patch(recompile_limit=1000):
        runs = [Run(name, "eager", "", eager := copy.deepcopy(model), eager), checkpoints(name, model)]
        for budget in filter(None, arguments.aot.split(",")) if net.onednn else ():
            runs.append(compiled(name, model, data, budget))
        whole, peak = (allocator_peak(lambda run=run: step(run, data)) for run in runs[:2])
        for budget in filter(None, arguments.budgets.split(",")):
            wanted = peak if budget == "checkpoint" else budget
            share = Fraction(peak, whole) if budget == "checkpoint" else budget  # so that eager's time is known
            runs.append(planned(name, model, data, budget, share, arguments.time_limit))
            if arguments.aot and net.onednn and budget != "least":
                runs.append(compiled_plan(name, model, data, budget, wanted, arguments.time_limit))
                runs.append(compiled_knapsack(name, model, data, budget, wanted))
        expected = None
        for run in runs:
            if run.call is None:
                continue
            answer = results(run, data)
            expected = expected or answer
            run.equal = same(answer, expected)
            if not run.method.startswith("aot_eager"):
                run.storage = storage_peak(lambda run=run: step(run, data))
            run.allocator = allocator_peak(lambda run=run: step(run, data))
        timed, chance = [run for run in runs if run.call is not None], random.Random(0)
        gc.collect()
        gc.freeze()  # what planning left is no part of a step
        for _ in range(arguments.steps):
            for run in chance.sample(timed, len(timed)):
                step(run, data)  # as in training, where the step before was one of its own
                began = time_of()
                step(run, data)
                run.times.append(time_of() - began)
        gc.unfreeze()
    for run in timed:
        run.over = 100 * (median(own / other for own, other in zip(run.times, runs[0].times, strict=True)) - 1)
    return runs


def together(runs: Sequence[Run]) -> Run:
    """One method in several processes: the largest peaks, the means of percents."""
    known = [run for run in runs if run.equal is not None]
    if not known:
        return runs[0]
    most = max(known, key=lambda run: run.allocator or 0)
    return replace(
        most, equal=all(run.equal for run in known), times=[one for run in known for one in run.times],
        increase=None if most.increase is None else mean(run.increase or 0.0 for run in known),
        over=mean(run.over or 0.0 for run in known),
    )  # fmt: skip


def checkpoints(name: str, model: Any) -> Run:
    own = copy.deepcopy(model)
    own.checkpointed = True
    return Run(name, "checkpoint", "block", own, own)


def compiled(name: str, model: Any, data: Any, budget: str) -> Run:
    """PyTorch's own choice of what to keep; it is made when the network is called first."""
    own = copy.deepcopy(model)
    run = Run(name, "aot_eager", budget, under(own, float(budget)), own)
    step(run, data)
    return run


def under(model: Any, share: float, **more: Any) -> Callable[..., Any]:
    """The network, compiled under an activation memory budget, by a backend of its own, as what one backend has
    compiled is taken for all networks of one kind.
    """
    from torch._dynamo.backends.debugging import aot_eager
    from torch._functorch import config

    def backend(graph_module: Any, inputs: Any) -> Any:
        with config.patch(activation_memory_budget=share, enable_autograd_cache=False, **more):
            return aot_eager(graph_module, inputs)

    return torch.compile(model, backend=backend)


def compiled_plan(name: str, model: Any, data: Any, budget: str, wanted: int | str, limit: float) -> Run:
    own = copy.deepcopy(model)
    parted = backend(wanted, time_limit=limit, seed=0)
    run = begun(Run(name, "aot_eager plan", budget, torch.compile(own, backend=parted), own), data)
    if run.call is not None:
        run.predicted, run.increase = parted.plans[-1].predicted_peak, parted.plans[-1].predicted_increase
    return run


def compiled_knapsack(name: str, model: Any, data: Any, budget: str, wanted: int | str) -> Run:
    own = copy.deepcopy(model)
    call = under(own, 0.01, activation_memory_budget_solver=knapsack(wanted))
    return begun(Run(name, "aot_eager knapsack", budget, call, own), data)


def begun(run: Run, data: Any) -> Run:
    """After its first step, which plans it; without a call where there is no plan."""
    try:
        step(run, data)
    except PlanError as error:
        print(f"{run.net} {run.budget}: {str(error).splitlines()[0]}", file=sys.stderr)
        run.call = None
    return run


def planned(name: str, model: Any, data: Any, budget: str, wanted: Fraction | str, limit: float) -> Run:
    own = copy.deepcopy(model)
    try:
        found = plan(own, data, budget=wanted, time_limit=limit, seed=0)
    except PlanError as error:
        print(f"{name} {budget}: {error}", file=sys.stderr)
        return Run(name, "plan", budget, None)
    return Run(
        name, "plan", budget, found.module(), own, predicted=found.predicted_peak, increase=found.predicted_increase
    )


def step(run: Run, data: Any) -> None:
    """One step of training without the optimizer; no gradients are left."""
    assert run.call is not None and run.state is not None
    run.call(*data).backward()
    run.state.zero_grad(set_to_none=True)


def results(run: Run, data: Any) -> dict[str, torch.Tensor]:
    """Loss and gradients by name, of the same random numbers for all methods."""
    assert run.call is not None and run.state is not None
    torch.manual_seed(1)
    loss = run.call(*data)
    loss.backward()
    found = {name: parameter.grad.clone() for name, parameter in run.state.named_parameters()}
    run.state.zero_grad(set_to_none=True)
    return {**found, "loss": loss.detach()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# --- what comes of it ------------------------------------------------------------------------------------------


def table_of(runs: list[Run]) -> Any:
    """One row for each run."""
    table = plain_table(None, _HEADINGS, left=("net", "method", "equal"))
    for run in runs:
        table.add_row(
            run.net,
            run.method,
            run.budget,
            *(number(amount, MEGABYTE, 3) for amount in (run.predicted, run.storage, run.allocator)),
            number(run.increase, 0.01, 1),
            number(run.seconds, 0.001, 2),
            number(run.over, 1, 1),
            "no schedule" if run.equal is None else "yes" if run.equal else "no",
        )
    return table


def number(value: float | None, unit: float, decimals: int) -> str:
    """The number, or a dash."""
    return "-" if value is None else f"{value / unit:,.{decimals}f}"


def draw(runs: list[Run], path: str) -> None:
    """Draw time over memory of what was measured."""
    points = [
        Point(run.net, run.method, run.allocator / MEGABYTE, run.over)
        for run in runs
        if run.allocator is not None and run.over is not None
    ]
    write(points, Path(path))


if __name__ == "__main__":
    main()
