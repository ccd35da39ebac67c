"""Networks of libraries that people use, each planned, run and compared with eager: a table, and a file of all figures.

    python scripts/bench_networks.py CASES.py [NAME ...] [--budget 0.7] [--time-limit 8] [--limit 240] [--jobs 1]
                                     [--first MODULE] [--output networks.json] [--regions] [--of activations]

CASES.py has a dictionary `CASES` of functions by name. Each returns a dictionary of "model", "args", "kwargs", and
perhaps "loss" (of outputs and a target, the last of the arguments), "ctx" (a context of the forward pass, such as
autocast) and "train". The libraries have to be installed; `--first` imports a module before, which mends one of them.
Every network runs in a process of its own, which may take `--limit` seconds; one thread, on the CPU.

- equal: loss, gradients, buffers and the state of random numbers are those of eager, bit for bit
- regions: equal as well; the network is refused as a whole, and its regions are planned
- share: the peak that was measured of the planned step, of that of the user's own step
- excess: bytes that the measured peak is above the prediction
- over: time of a planned step over eager, measured, and predicted
- eager fails: the network cannot be run on these arguments at all
- none: it is proven that no plan is within the budget, or none was found; refused: with the reason, see the file
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from runpy import run_path
from statistics import median
from typing import Any

import numpy as np
import torch
from row_tables import kept, print_columns
from torch.utils._pytree import tree_leaves

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import NoPlanError, Plan, PlanError, RegionPlan, plan
from moccasin_mzn.pytorch.measuring import allocator_peak

Step = Callable[..., Any]
MEGABYTE = 10**6
TIMED = 5
_HEADINGS = "network", "outcome", "nodes", "again", "eager MB", "share %", "excess B", "over %", "predicted %", "s"


class Case:
    """A network with the arguments of a step; state and random numbers are the same before each run."""

    def __init__(self, made: dict[str, Any]) -> None:
        self.model, self.args, self.kwargs = made["model"], made.get("args", ()), made.get("kwargs", {})
        self.loss, self.context = made.get("loss"), made.get("ctx", contextlib.nullcontext)
        self.model.train(made.get("train", True))
        self.buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The user's own step."""
        if self.loss is None:
            return self.model(*args, **kwargs)
        return self.loss(self.model(*args[:-1], **kwargs), args[-1])

    def run(self, call: Step) -> torch.Tensor:
        """Run one step as a loop does; the loss."""
        with self.context():
            outputs = call(*self.args, **self.kwargs)
        loss = _loss(outputs)
        loss.backward()
        return loss.detach()

    @contextlib.contextmanager
    def fresh(self) -> Iterator[None]:
        """The state before the first step, and again at the end."""
        for ending in (False, True):
            torch.manual_seed(1234)
            random.seed(5)
            np.random.seed(6)
            self.model.zero_grad(set_to_none=True)
            with torch.no_grad():
                for name, buffer in self.model.named_buffers():
                    buffer.copy_(self.buffers[name])
            if not ending:
                yield

    def left(self, call: Step) -> dict[str, torch.Tensor | None]:
        """What a step gives and leaves behind, by name."""
        with self.fresh():
            found: dict[str, torch.Tensor | None] = {"loss": self.run(call)}
            found |= {f"gradient of {name}": each.grad for name, each in self.model.named_parameters()}
            found |= {f"buffer {name}": each.clone() for name, each in self.model.named_buffers()}
            return found | {"random state": torch.get_rng_state()}

    def peak(self, call: Step) -> int:
        """Bytes at the allocator."""
        with self.fresh():
            return allocator_peak(lambda: self.run(call))

    def seconds(self, *calls: Step) -> list[float]:
        """Medians of CPU seconds of steps, in turns."""
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(TIMED):
            for own, call in zip(times, calls, strict=True):
                with self.fresh():
                    begin = time.process_time()
                    self.run(call)
                    own.append(time.process_time() - begin)
        return [median(own) for own in times]


def _loss(outputs: Any) -> torch.Tensor:
    """What a loop differentiates: the loss, or numbers of all that can be."""
    if isinstance(outputs, torch.Tensor):
        return outputs if outputs.ndim == 0 else outputs.float().square().mean()
    loss = outputs.get("loss") if isinstance(outputs, dict) else getattr(outputs, "loss", None)
    if loss is not None:
        return loss
    leaves = [each for each in tree_leaves(outputs) if isinstance(each, torch.Tensor) and each.requires_grad]
    return sum((each.float().square().mean() for each in leaves), torch.zeros(()))


def same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """True if both are equal bit for bit; what is no number equals itself."""
    if one is None or other is None:
        return one is other
    return torch.equal(one, other) or torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def planned(make: Callable[..., Any], budget: str, row: dict[str, Any]) -> Plan | RegionPlan:
    """The plan of a network, or of its regions where it is refused as a whole."""
    try:
        return make(budget=budget)
    except NoPlanError:
        raise
    except PlanError as error:
        row["whole"] = str(error)
        return by_regions(make, budget, row)


def by_regions(make: Callable[..., Any], budget: str, row: dict[str, Any]) -> RegionPlan:
    """The plans of a network's regions."""
    row["how"] = "regions"
    found = make(budget=budget, regions="auto")
    row["regions"] = {name: each.peaks.kept for name, each in found.regions.items()}
    row["outside"] = dict(found.outside)
    return found


def nodes_of(found: Plan | RegionPlan) -> int:
    """How many nodes were planned."""
    plans = [found] if isinstance(found, Plan) else found.regions.values()
    return sum(len(each.graph.nodes) for each in plans)


def judged(
    name: str, build: Callable[[], dict[str, Any]], budget: str, time_limit: float, regions: bool = False,
    of: str = "step",
) -> dict[str, Any]:  # fmt: skip
    """Plan a network, run it and compare it with eager."""
    torch.manual_seed(0)
    case, row = Case(build()), {"network": name, "budget": budget}
    try:
        eager = case.left(case.eager)
        row["eager_peak"] = case.peak(case.eager)
    except Exception as error:  # whatever the network raises
        return {**row, "outcome": "eager fails", "reason": f"{type(error).__name__}: {error}"}
    begin = time.monotonic()
    asked = {"loss": case.loss, "time_limit": time_limit, "of": of, "seed": 0}
    make = partial(plan, case.model, case.args, kwargs=case.kwargs, **asked)
    try:
        with case.context():
            found = by_regions(make, budget, row) if regions else planned(make, budget, row)
    except NoPlanError as error:
        return {**row, "outcome": "none", "reason": str(error), "planning": time.monotonic() - begin}
    except (PlanError, InputError) as error:
        return {**row, "outcome": "refused", "reason": str(error), "planning": time.monotonic() - begin}
    row["planning"] = time.monotonic() - begin
    step = found.module()
    own_left = case.left(step)
    unequal = [each for each, value in eager.items() if not same(value, own_left[each])]
    again = case.left(case.eager)
    steady = all(same(value, again[each]) for each, value in eager.items())
    own, its = case.seconds(case.eager, step)
    differs = "unequal" if steady else "eager differs from itself"
    return {
        **row, "outcome": differs if unequal else row.get("how", "equal"),
        "unequal": unequal[:5], "nodes": nodes_of(found), "recomputations": found.recomputations,
        "plan_peak": case.peak(step), "predicted_peak": found.predicted_peak, "budget_bytes": found.budget,
        "over": its / own - 1, "predicted": found.predicted_increase, "status": str(found.status),
    }  # fmt: skip


def in_process(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """Judge one network in a process of its own."""
    words = [str(arguments.cases), "--one", name, "--budget", arguments.budget, "--time-limit", arguments.time_limit]
    words += ["--of", arguments.of, *(["--regions"] if arguments.regions else [])]
    words += [word for module in arguments.first for word in ("--first", module)]
    command = [sys.executable, __file__, *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.limit)
    except subprocess.TimeoutExpired:
        return {"network": name, "outcome": "over the limit"}
    try:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError):
        return {"network": name, "outcome": "crashed", "reason": done.stderr[-2000:], "status": done.returncode}


def cells(row: dict[str, Any]) -> list[str]:
    """Return the cells of a table's row."""
    planning = f"{row['planning']:.1f}" if "planning" in row else "-"
    eager = f"{row['eager_peak'] / MEGABYTE:.2f}" if "eager_peak" in row else "-"
    if "plan_peak" not in row:
        return [row["network"], row["outcome"], "-", "-", eager, "-", "-", "-", "-", planning]
    return [
        row["network"], row["outcome"], str(row["nodes"]), str(row["recomputations"]), eager,
        f"{100 * row['plan_peak'] / row['eager_peak']:.1f}", f"{row['plan_peak'] - row['predicted_peak']:,}",
        f"{100 * row['over']:+.1f}", f"{100 * row['predicted']:+.1f}", planning,
    ]  # fmt: skip


def cases_of(path: Path, first: Sequence[str]) -> dict[str, Callable[[], dict[str, Any]]]:
    """The cases of a file, for one thread and without warnings, after these modules are imported."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, str(path.resolve().parent))
    for module in first:
        import_module(module)
    return run_path(str(path))["CASES"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--budget", default="0.7")
    parser.add_argument("--time-limit", type=float, default=8.0)
    parser.add_argument("--limit", type=float, default=240.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--first", action="append", default=[], metavar="MODULE", help="a module to import first")
    parser.add_argument("--regions", action="store_true", help="plan all by regions, also those that can be whole")
    parser.add_argument("--of", default="step", help="what the budget is a fraction of: step, or activations")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    cases = cases_of(arguments.cases, arguments.first)
    if arguments.one:
        how = arguments.budget, arguments.time_limit, arguments.regions, arguments.of
        print(json.dumps(judged(arguments.one, cases[arguments.one], *how)))
        return
    outcomes = Counter[str]()

    def counted(row: dict[str, Any]) -> list[str]:
        outcomes[row["outcome"]] += 1
        return cells(row)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = pool.map(lambda name: in_process(arguments, name), arguments.names or cases)
        print_columns(_HEADINGS, kept(rows, counted, arguments.output), left=("network", "outcome"))
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))


if __name__ == "__main__":
    main()
