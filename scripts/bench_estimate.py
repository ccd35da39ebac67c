"""What `estimate` and `largest_batch` find for networks of libraries, and what runs of them take: two tables.

    python scripts/bench_estimate.py CASES.py [NAME ...] [--optimizer adam] [--batches] [--first MODULE]

CASES.py as for `scripts/bench_networks.py`. Each network is estimated, then run for two steps with the optimizer, of
which the second is measured at the allocator, with gradients set to None before it; one thread, on the CPU.

- kept: at the end of the forward pass, outputs included
- step: the peak of the forward and backward pass, above parameters, buffers, inputs and the optimizer's state
- whole: the peak with the optimizer's step and all that stays
- each measured, in MB, and by how much the estimate is above that, in %

With `--batches` the largest batch within half of the peak of the case's own step is sought. At that batch a step with
the plan is measured; of one more it is measured what the least plan that is found takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from bench_networks import Case, cases_of
from row_tables import print_columns
from torch.utils._pytree import tree_map

from moccasin_mzn.pytorch import NoPlanError, PlanError, estimate, largest_batch, plan
from moccasin_mzn.pytorch.measuring import allocator_peak, peak_and_end
from moccasin_mzn.pytorch.optimizers import maker_of

MEGABYTE = 10**6
_HEADINGS = "network", "kept MB", "% off", "step MB", "% off", "whole MB", "% off", "phase", "s"
_BATCHES = "network", "budget MB", "batch", "its peak MB", "next, least MB", "tried", "s"


def estimated(name: str, case: Case, optimizer: str) -> list[str]:
    """Estimate a network and run it: the cells of a row."""
    begin = time.monotonic()
    with case.context():
        found = estimate(case.model, case.args, kwargs=case.kwargs, loss=case.loss, optimizer=optimizer, least=False)
    seconds = time.monotonic() - begin

    def forward() -> Any:
        with case.context():
            return case.eager(*case.args, **case.kwargs)

    maker = maker_of(optimizer, together=False)
    assert maker is not None
    made = maker({each: each for each in case.model.parameters()})
    with case.fresh():
        case.run(case.eager)
        made.step()
    with case.fresh():
        kept = peak_and_end(forward)[1]
    step = case.peak(case.eager)
    with case.fresh():
        whole = found.fixed + allocator_peak(lambda: (case.run(case.eager), made.step()))
    cells = [name]
    for measured, predicted in ((kept, found.activations), (step, found.step_peak), (whole, found.peak)):
        cells += [f"{measured / MEGABYTE:.2f}", f"{100 * (predicted / measured - 1):+.2f}"]
    return [*cells, found.phase, f"{seconds:.1f}"]


def batched(name: str, case: Case, time_limit: float) -> list[str]:
    """Seek the largest batch, and run it and the next: the cells of a row."""
    size = _batch_of(case)

    def make(batch: int) -> Any:
        def resized(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.ndim == 0 or len(value) != size:
                return value
            return value.repeat(-(-batch // size), *[1] * (value.ndim - 1))[:batch]

        return tree_map(resized, case.kwargs or case.args)

    budget, begin = case.peak(case.eager) // 2, time.monotonic()
    with case.context():
        found = largest_batch(case.model, make, budget, loss=case.loss, time_limit=time_limit, seed=0)
    seconds = time.monotonic() - begin
    assert found.plan is not None
    peaks = [_planned_peak(case, make, found.batch, lambda *_, **__: found.plan)]
    try:
        peaks.append(_planned_peak(case, make, found.batch + 1, plan, budget=budget, time_limit=time_limit))
        raise AssertionError(f"{name}: there is a plan for a batch of {found.batch + 1}")
    except NoPlanError:
        peaks.append(_planned_peak(case, make, found.batch + 1, plan, budget="least", time_limit=time_limit))
    cells = [f"{amount / MEGABYTE:.2f}" for amount in peaks]
    return [name, f"{budget / MEGABYTE:.2f}", str(found.batch), *cells, str(len(found.tried)), f"{seconds:.0f}"]


def _planned_peak(case: Case, make: Callable[[int], Any], batch: int, planner: Callable[..., Any], **how: Any) -> int:
    """Bytes that a step with a plan takes, measured."""
    inputs = make(batch)
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    other = Case({"model": case.model, "args": args, "kwargs": kwargs, "loss": case.loss, "ctx": case.context})
    with case.context():
        found = planner(case.model, args, kwargs=kwargs, loss=case.loss, seed=0, **how)
    return other.peak(found.module())


def _batch_of(case: Case) -> int:
    tensors = [each for each in (*case.args, *case.kwargs.values()) if isinstance(each, torch.Tensor) and each.ndim]
    return len(tensors[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--optimizer", default="adam")
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--first", action="append", default=[], metavar="MODULE", help="a module to import first")
    arguments = parser.parse_args()
    cases = cases_of(arguments.cases, arguments.first)
    headings = _BATCHES if arguments.batches else _HEADINGS
    print_columns(headings, rows(cases, arguments, len(headings)), left=("network", "phase"))


def rows(cases: Mapping[str, Callable[[], Any]], arguments: argparse.Namespace, count: int) -> Iterator[list[str]]:
    """A row of `count` cells for each network, with its error if there is one."""
    for name in arguments.names or cases:
        torch.manual_seed(0)
        case = Case(cases[name]())
        try:
            yield (
                batched(name, case, arguments.time_limit) if arguments.batches
                else estimated(name, case, arguments.optimizer)
            )  # fmt: skip
        except (PlanError, RuntimeError) as error:  # also what the network itself raises
            yield [name, f"{type(error).__name__}: {error}"[:60], *[""] * (count - 2)]


if __name__ == "__main__":
    main()
