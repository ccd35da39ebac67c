#!/usr/bin/env python
"""Is a planned step ever silently different? Random networks that read and change state, with and without a plan.

    python scripts/fuzz_steps.py --modules 400 --seed 1 [--replay 17] [--no-verify] [--verbose]

Each network of `step_modules.py` runs four steps of a training loop as it is, four with a plan, from the same state.
Either all is equal bit for bit (outputs, gradients, parameters, buffers, random states, what the network can be seen to
have changed), or the plan is refused by a PlanError or an InputError, when it is made or when it is called, or the
difference is one that is known: its report names it, it is one of rounding after two forward passes, or it is gone with
the lines that write to memory behind autograd's back. Anything else is a finding: `--replay` with its number prints the
network's source. Exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import os
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import step_modules
import torch

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import NoPlanError, Plan, Plans, plan
from moccasin_mzn.pytorch.instructions import peaks
from moccasin_mzn.pytorch.problem import Cut

EQUAL, REFUSED, KNOWN, FINDING = "equal", "refused", "known", "finding"
QUICK: Final = {
    "search": "only", "until_gap": 0.9, "time_limit": 30.0, "seed": 0, "threads": 1, "durations": "flop",
    "workspaces": "none",
}  # fmt: skip
"""Options of a search that ends with the first schedule that it finds, and measures nothing."""
BUDGETS: Final = 0.8, 0.9, "1TiB"
"""Tried one after the other until there is a plan."""
WAYS: Final = "install", "install", "module", "plans", "again"
"""How a plan is used; "again": one that computes all of the forward pass once more."""
UNWATCHED: Final = re.compile(r"^( +)\S.*(\.numpy\(\)\[\.\.\.\] =|\.data\.\w+_\().*$", re.MULTILINE)
"""Lines that write to memory without a version that counts it; docs/training.md has them as not compared."""
ROUNDING: Final = 16 * 2.0**-23
ROUNDING_OF_AUTOCAST: Final = 2 * 2.0**-8
"""Largest differences relative to the largest number of a tensor, of gradients that are added up in another order."""
ATTEMPTS: Final = 40
"""Networks are drawn until one runs without a plan."""

Step = list[tuple[str, object]]
"""What a step leaves behind, by name."""


@dataclass(frozen=True)
class Outcome:
    """How four steps with a plan compare to four without."""

    kind: str
    reason: str = ""
    step: int | None = None
    """The step that was refused or differs; None: no step was reached."""

    def __str__(self) -> str:
        place = "" if self.kind == EQUAL else "planning: " if self.step is None else f"step {self.step}: "
        return f"{self.kind} {place}{self.reason}".strip()


# --- A world of its own for each run


@contextlib.contextmanager
def world() -> Iterator[None]:
    """All settings of the process as they were before."""
    hooks = [
        table
        for name, table in vars(torch.nn.modules.module).items()
        if name.startswith("_global_") and table is not None
    ]
    tables = [(table, dict(table)) for table in hooks if isinstance(table, dict)]
    variables, arguments, threads = dict(os.environ), sys.argv, torch.get_num_threads()
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - networks draw from it
    torch.manual_seed(5)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        for table, before in tables:
            table.clear()
            table.update(before)
        os.environ.clear()
        os.environ.update(variables)
        sys.argv = arguments
        torch.set_num_threads(threads)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        torch.set_flush_denormal(False)
        torch.set_grad_enabled(True)


@contextlib.contextmanager
def module_of(path: Path) -> Iterator[ModuleType]:
    """The file as a module with variables of its own."""
    name = f"{path.stem}_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]


_numbers = iter(range(sys.maxsize))


# --- The loop


def inputs_of(loop: str, step: int) -> list[torch.Tensor]:
    """The arguments of a call."""
    rows = 1 if loop == "one row" else 5 if loop == "smaller batch" and step == 3 else 16  # noqa: PLR2004
    chance = torch.Generator().manual_seed(0 if loop == "same input" else step)
    return [torch.randn(rows, 8, generator=chance).requires_grad_(loop == "input with gradient")]


def steps(module: ModuleType, net: torch.nn.Module, call: Callable[..., Any], found: list[Step]) -> None:
    """Four steps of a training loop; what each leaves behind is added to `found`."""
    optimizer = torch.optim.SGD([*net.parameters()], lr=0.05, momentum=0.9)
    torch.manual_seed(7)
    loop: str = module.LOOP
    for step in range(step_modules.STEPS):
        if loop != "accumulated":
            optimizer.zero_grad(set_to_none=True)
        inputs = inputs_of(loop, step)
        module.before(net, step)
        with module.world(step):
            out = call(*inputs)
            others = [call(*inputs)] if loop == "two forwards" else []
        if loop == "eval between":
            with torch.no_grad():
                call(*inputs_of(loop, step + 10))
        loss = sum(each.float().pow(2).mean() for each in (out, *others))
        module.between(net, step, out)
        if loop == "changed output":
            out.detach().mul_(2)
        if loop == "changed input":
            inputs[0].mul_(2)
        loss.backward()
        gradients = [(f"gradient of {name}", copied(each.grad)) for name, each in net.named_parameters()]
        optimizer.step()
        module.after(net, step)
        found.append([
            ("output", copied(out)), ("loss", copied(loss)), *gradients,
            *((f"gradient of input {at}", copied(each.grad)) for at, each in enumerate(inputs)),
            *((name, copied(each)) for name, each in net.state_dict().items()),
            ("state", copied(module.state(net))), ("random state", torch.get_rng_state()),
            ("random state of Python", random.getstate()), ("random state of numpy", copied(np.random.get_state())),  # noqa: NPY002
        ])  # fmt: skip


def copied(value: Any) -> object:
    """What is compared of a value, which later changes leave as it is."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("="))).clone()
    if isinstance(value, (list, tuple)):
        return [copied(each) for each in value]
    if isinstance(value, dict):
        return [(key, copied(each)) for key, each in value.items()]
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def same(one: object, other: object) -> bool:
    """Equal bit for bit, but for the sign of zero and that no number equals itself."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        form = one.shape == other.shape and one.dtype == other.dtype
        return form and (torch.equal(one, other) or torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=True))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def difference(wanted: Step, found: Step) -> str:
    """The names of what differs, and by how much; empty: nothing."""
    if [name for name, _ in wanted] != [name for name, _ in found]:
        return "other parameters or buffers"
    names, largest = [], 0.0
    for (name, one), (_, other) in zip(wanted, found, strict=True):
        if same(one, other):
            continue
        names.append(name)
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.shape == other.shape:
            largest = max(largest, float((one.double() - other.double()).abs().max()))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004
    return f"{', '.join(names[:3])}{more} by {largest:.2g}" if names else ""


# --- With a plan


def planned(
    module: ModuleType, net: torch.nn.Module, way: str, options: dict[str, Any]
) -> tuple[Callable[..., Any], Callable[[], Sequence[Plan]]]:
    """What runs the network with a plan, made here unless its first batch makes it; and what gives the plans."""
    inputs = inputs_of(module.LOOP, 0)
    if way == "plans":
        plans = Plans(net, budget="1TiB" if module.LOOP == "one row" else 0.9, **options).install()
        return net, lambda: plans.plans
    found = first_plan(net, inputs, BUDGETS[-1:] if way == "again" else BUDGETS, options)
    if way == "again":
        sequence = all_again(found)
        found = replace(found, sequence=sequence, peaks=peaks(found.traced.linear(sequence)))
    if way == "module":
        return found.module(), lambda: [found]
    found.install()
    return net, lambda: [found]


def first_plan(net: torch.nn.Module, inputs: Sequence[Any], budgets: Sequence[Any], options: dict[str, Any]) -> Plan:
    """The plan of the first budget that there is one for."""
    for budget in budgets[:-1]:
        with contextlib.suppress(NoPlanError):
            return plan(net, inputs, budget=budget, **options)
    return plan(net, inputs, budget=budgets[-1], **options)


def all_again(found: Plan) -> tuple[int, ...]:
    """The input order, and all of the forward pass once more, right before the backward pass."""
    problem = found.traced.problem
    order = list(problem.graph.input_order())
    cut = next(at for at, node in enumerate(order) if isinstance(problem.meanings[node], Cut))
    again = [node for node in order[:cut] if problem.most[node]]
    return (*order[: cut + 1], *again, *order[cut + 1 :])


def made(module: ModuleType) -> torch.nn.Module:
    """The network, from the same random state each time."""
    torch.manual_seed(0)
    net: torch.nn.Module = module.make()
    return net


def eager(path: Path) -> list[Step]:
    """What the steps leave behind without a plan."""
    found: list[Step] = []
    with world(), module_of(path) as module:
        net = made(module)
        steps(module, net, net, found)
    return found


def outcome(path: Path, wanted: list[Step], way: str, options: dict[str, Any]) -> Outcome:
    """Run the steps with a plan, and compare them to those without."""
    found: list[Step] = []
    step: int | None = None
    with world(), module_of(path) as module:
        try:
            net = made(module)
            with module.world(0):
                call, plans = planned(module, net, way, options)
            step = 0
            random.seed(5)
            steps(module, net, call, found)
        except InputError as error:
            refused = Outcome(REFUSED, str(error), None if step is None else len(found))
        except Exception as error:  # whatever it is, it is a finding
            refused = Outcome(FINDING, f"{type(error).__name__}: {error}", None if step is None else len(found))
        else:
            refused = Outcome(EQUAL)
    for at, (one, other) in enumerate(zip(wanted, found, strict=False)):
        if text := difference(one, other):
            known = [each.trust.known for each in plans() if each.trust.known]
            if not known and module.LOOP == "two forwards" and is_rounding(one, other, path.read_text()):
                known = ["two forward passes before one backward pass: rounding"]
            if not known and is_unwatched(path, way, options):
                known = ["memory is written to without a version"]
            return Outcome(KNOWN, known[0], at) if known else Outcome(FINDING, f"silently different: {text}", at)
    return refused


def is_rounding(wanted: Step, found: Step, source: str) -> bool:
    """True if only tensors differ, and those by a few units in the last place of their largest number."""
    most = ROUNDING_OF_AUTOCAST if "torch.autocast" in source else ROUNDING
    for (name, one), (_, other) in zip(wanted, found, strict=True):
        if same(one, other):
            continue
        if name in ("output", "loss") or not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            return False
        if one.shape != other.shape or float((one - other).abs().max()) > most * float(one.abs().max()):
            return False
    return True


def is_unwatched(path: Path, way: str, options: dict[str, Any]) -> bool:
    """True for a module that has such lines, and is not different without them."""
    text = path.read_text()
    rest = UNWATCHED.sub(r"\1pass", text)
    if rest == text:
        return False
    other = path.with_name(f"{path.stem}_rest.py")
    other.write_text(rest)
    return outcome(other, eager(other), way, options).kind != FINDING


# --- Modules by number


def drawn(folder: Path, seed: int, number: int) -> tuple[Path, list[Step], str]:
    """The file of a module that runs without a plan, what it leaves behind, and how a plan is used."""
    for attempt in range(ATTEMPTS):
        chance = random.Random(f"{seed}/{number}/{attempt}")
        path = folder / f"module_{seed}_{number}.py"
        path.write_text(step_modules.source(chance))
        with contextlib.suppress(Exception):  # what cannot be trained as it is, is no question
            return path, eager(path), chance.choice(WAYS)
    raise RuntimeError(f"module {number} of seed {seed}: none of {ATTEMPTS} runs without a plan")


def judged(folder: Path, seed: int, number: int, options: dict[str, Any] | None = None) -> tuple[Path, str, Outcome]:
    """A module's file, how the plan was used, and what came of it."""
    path, wanted, way = drawn(folder, seed, number)
    return path, way, outcome(path, wanted, way, {**QUICK, **(options or {})})


def kind_of(reason: str) -> str:
    """A reason without what differs from module to module."""
    text = re.sub(r"\(see .*|'[^']*'|\"[^\"]*\"|/\S+|\d[\w.]*", "..", reason.partition(";")[0])
    return " ".join(text.split())[:90]


def printed(outcomes: Sequence[Outcome]) -> None:
    """The summary."""
    kinds = Counter(each.kind for each in outcomes)
    print(
        f"\n{len(outcomes)} modules: " + ", ".join(f"{kinds[kind]} {kind}" for kind in (EQUAL, REFUSED, KNOWN, FINDING))
    )
    for kind in (REFUSED, KNOWN, FINDING):
        reasons = Counter(
            f"{'at a call' if each.step is not None else 'at planning'}: {kind_of(each.reason)}"
            for each in outcomes if each.kind == kind
        )  # fmt: skip
        for reason, count in reasons.most_common():
            print(f"{count:6} {kind} {reason}")


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", type=int, help="prints and runs one module")
    parser.add_argument("--no-verify", action="store_true", help="plans that are not compared when they are made")
    parser.add_argument("--verbose", action="store_true", help="prints every outcome")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    outcomes = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(options.modules) if options.replay is None else (options.replay,):
            path, way, result = judged(Path(name), options.seed, number, {"verify": not options.no_verify})
            outcomes.append(result)
            if options.replay is not None:
                print(path.read_text())
            if options.verbose or options.replay is not None or result.kind == FINDING:
                print(f"{number} ({way}): {result}", flush=True)
            gc.collect()
    printed(outcomes)
    return int(any(each.kind == FINDING for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
