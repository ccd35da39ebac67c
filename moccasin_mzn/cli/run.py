"""The commands `run ...`: networks trained by a plan and without one."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from cloup import option, option_group

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.base.interrupts import stopped_by_signals
from moccasin_mzn.base.log import underway
from moccasin_mzn.base.option import flag, options_of
from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE, check_outputs
from moccasin_mzn.cli.options import Choice, OptionValue, OptionValues, declared, group, named_options
from moccasin_mzn.machine.memories import MemoryOptions
from moccasin_mzn.machine.platforms import SLOW
from moccasin_mzn.pytorch.options import StepOptions
from moccasin_mzn.pytorch.tracing import MEASURED, NONE
from moccasin_mzn.report.tables import Lines, console, plain_table, print_table

if TYPE_CHECKING:
    from torch import Tensor, nn

    from moccasin_mzn.api.driving import Progress
    from moccasin_mzn.base.vocabulary import Workspaces
    from moccasin_mzn.graphs.importers.torch.spec import Input
    from moccasin_mzn.pytorch.estimating import Estimate
    from moccasin_mzn.pytorch.plans import Plan

    _Called = tuple[Plan, Sequence[Tensor], Mapping[str, Tensor]]


_OPTIONS = {"inputs": "--input"}
"""The options of parameters with other names."""


@group("run")
def run_() -> None:
    """Train a network for a few steps with a plan and without, and compare."""


@run_.command()
@click.argument("spec", metavar="MODULE:FACTORY")
@option_group(
    "Step",
    option("--input", "inputs", multiple=True, metavar="[NAME=]SHAPE[:DTYPE]",
           help="An argument of the network: 8x3x224x224, 8x128:int64; once for each. Values are random; those of "
                "integers are 0 or 1."),
    option("--loss", metavar="NAME|MODULE:FUNCTION",
           help="The loss, a function of the outputs and the last input: one of torch.nn.functional, or your own.  "
                "[default: an output that is one number is the loss; other outputs get random gradients]"),
    option("--evaluation", is_flag=True, help="Put the network in evaluation mode, not in training mode."),
    option("--device", default="cpu", show_default=True, metavar="cpu|cuda|cuda:N", help="Device of the training."),
    option("--onednn/--no-onednn", default=True, show_default=True,
           help="Let PyTorch use oneDNN. oneDNN computes a recurrent layer, such as an LSTM, as one operator, a plan "
                "as several for each step of the sequence; results are equal bit for bit only without oneDNN."),
)  # fmt: skip
@option_group(
    "Estimate",
    option("--estimate", is_flag=True,
           help="Only estimate what a step takes, without running it: nothing is trained and no budget is needed. "
                "--device may then name a card, such as cuda:H100; --plot draws memory over time."),
)  # fmt: skip
@option_group(
    "Plan",
    *declared(StepOptions, "budget"),
    *declared(StepOptions, "of", metavar=None, type=Choice(options_of(StepOptions)["of"].choices)),
    *declared(StepOptions, "gradients", metavar=None, type=Choice(options_of(StepOptions)["gradients"].choices)),
    *declared(MemoryOptions, "slow_memory", metavar="0.5|BYTES|64GiB",
              help="Host memory for offloaded tensors, in the form of the budget.  [default: no offloading]"),
    *named_options("time_limit", help="Seconds for the search.  [default: 60]"), *named_options("threads", "seed"),
    option("--plan", "plan_file", type=click.Path(path_type=Path), metavar="FILE",
           help="Use this plan, saved before, in place of a search."),
    option("--output", "-o", "--save", "save", type=click.Path(path_type=Path), metavar="FILE",
           help="Write the plan as JSON."),
    option("--plot", type=click.Path(path_type=Path), metavar="FILE",
           help="Draw the plan: .html, .svg, .pdf or .png."),
)  # fmt: skip
@option_group(
    "Comparison",
    option("--steps", type=click.IntRange(1, 10_000), default=5, show_default=True, metavar="N",
           help="Number of training steps."),
    option("--optimizer", type=Choice(["sgd", "momentum", "adam"]), default="sgd", show_default=True,
           help="The optimizer of the training steps."),
    option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; progress goes to stderr."),
)  # fmt: skip
def torch(
    spec: str, loss: str | None, evaluation: bool, device: str, onednn: bool, plan_file: Path | None, save: Path | None,
    plot: Path | None, steps: int, optimizer: str, as_json: bool, estimate: bool, **options: OptionValue,
) -> int:  # fmt: skip
    """Train a PyTorch module, which FACTORY() of the Python module (or FILE.py:FACTORY) returns.

    THIS RUNS THE MODULE'S CODE, as python would: import nothing you would not run. Memory is what a step takes beyond
    parameters, buffers and inputs, measured at the allocator and as the storages of tensors; time is the CPU time of a
    step.

    Exit status 0: results with the plan equal those without it, bit for bit, where memory allows the comparison; 1:
    there is no plan, or they differ.

    Ctrl-C ends the search and keeps the best plan; later it ends the steps.
    """
    from moccasin_mzn.graphs.importers.torch.spec import load_loss, load_network, users_code
    from moccasin_mzn.graphs.importers.torch.trace import require_torch
    from moccasin_mzn.pytorch.errors import NoPlanError
    from moccasin_mzn.pytorch.side_by_side import equality_text, print_side_by_side, side_by_side, side_by_side_dict

    code = spec.rpartition(":")[0]
    files = {"the plan": plan_file, "the network": Path(code) if code.endswith(".py") else None}
    check_outputs({"--output": save, "--plot": plot}, files)
    inputs = _checked(plan_file, options, estimate, save)
    with underway("loading PyTorch"):
        require_torch()
    try:
        with _isolated(onednn):
            model = load_network(spec).train(not evaluation)
            criterion = None if loss is None else load_loss(loss)
            if estimate:
                with users_code(spec):
                    taken = _estimated(model, criterion, inputs, device, optimizer, options)
                return _report_estimate(taken, plot, as_json)
            _placed(model, device)
            with users_code(spec):
                found, args, kwargs = (
                    _searched(model, criterion, inputs, device, options) if plan_file is None
                    else _read(plan_file, model, criterion)
                )  # fmt: skip
                if save is not None:
                    found.save(save)
                if plot is not None:
                    found.plot(plot)
                measured = side_by_side(found, args, kwargs, steps, optimizer)
    except NoPlanError as error:
        return _report_none(error, as_json)
    if as_json:
        click.echo(json.dumps(side_by_side_dict(found, measured)))
        click.echo(equality_text(measured), err=True)
    else:
        print_side_by_side(found, measured, sys.stdout)
    return EXIT_NONE if measured.equal is False else EXIT_FOUND


def _checked(plan_file: Path | None, options: OptionValues, estimate: bool, save: Path | None) -> tuple[Input, ...]:
    """Return the inputs of the network for a search; none with --plan.

    Raises:
        InputError: an option is nonsense or missing, or is given together with a plan that has its value already.
    """
    from moccasin_mzn.graphs.importers.torch.spec import parse_inputs
    from moccasin_mzn.machine.problems import capacity_of
    from moccasin_mzn.problem.budget import Budget
    from moccasin_mzn.pytorch.planning import LEAST

    given = [_OPTIONS.get(name, flag(name)) for name, value in options.items() if value not in (None, ())]
    if estimate:
        wrong = [name for name in given if name in ("--budget", "--of", "--slow-memory")]
        wrong += ["--plan"] * (plan_file is not None) + ["--output"] * (save is not None)
        if wrong:
            raise InputError(f"{wrong[0]} does not go with --estimate, which makes no plan")
    elif plan_file is not None:
        if given:
            raise InputError(f"{given[0]} does not go with --plan, which has a plan already")
        return ()
    for option_needed in ("--input",) if estimate else ("--input", "--budget"):
        if option_needed not in given:
            raise click.MissingParameter(
                ctx=click.get_current_context(), param_hint=f"'{option_needed}'", param_type="option"
            )
    if not estimate and options["budget"] != LEAST:
        Budget.parse(options["budget"])
    capacity_of(options["slow_memory"], 1)
    return parse_inputs(options.pop("inputs"))


@contextlib.contextmanager
def _isolated(onednn: bool) -> Iterator[None]:
    """Silence warnings of PyTorch, and restore the folder and the state of random numbers at the end."""
    import torch

    from moccasin_mzn.graphs.importers.torch.trace import quiet
    from moccasin_mzn.pytorch.devices import forked_random_state

    available = torch.backends.mkldnn.is_available()
    with (
        contextlib.chdir("."), quiet(), forked_random_state(),
        torch.backends.mkldnn.flags(enabled=onednn and available),
    ):  # fmt: skip
        torch.manual_seed(0)
        yield


def _placed(model: nn.Module, device: str) -> nn.Module:
    """Move the network to a device.

    Raises:
        InputError: there is no such device, or it has too little memory.
    """
    import torch

    from moccasin_mzn.graphs.importers.torch.spec import one_line

    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", device):
        raise InputError(f"device {shown(device)}: expected cpu, cuda or cuda:N")
    try:
        return model.to(torch.empty(0, device=device).device)
    except (RuntimeError, AssertionError) as error:  # PyTorch's for no device, or too little memory
        raise InputError(f"device {shown(device)}: {one_line(error)}") from None


def _searched(
    model: nn.Module, loss: Callable[..., Tensor] | None, inputs: tuple[Input, ...], device: str, options: OptionValues
) -> _Called:
    """Search for a plan for these inputs; return it and the inputs, positional and by name."""
    import torch

    from moccasin_mzn.pytorch.planning import plan
    from moccasin_mzn.pytorch.side_by_side import at_random

    made = [
        (each.name, at_random(torch.empty(each.shape, dtype=getattr(torch, each.dtype), device=device)))
        for each in inputs
    ]
    args = [tensor for name, tensor in made if name is None]
    kwargs = {name: tensor for name, tensor in made if name is not None}
    lines = _SearchLines(sys.stderr)
    how = {name: value for name, value in options.items() if value is not None}
    with stopped_by_signals():
        # the steps that follow are compared
        found = plan(model, args, kwargs=kwargs, loss=loss, on_progress=lines, verify=False, **how)
    lines.flush()
    return found, args, kwargs


def _estimated(
    model: nn.Module, loss: Callable[..., Tensor] | None, inputs: tuple[Input, ...], device: str, optimizer: str,
    options: OptionValues,
) -> Estimate:  # fmt: skip
    """Estimate what a step takes with these inputs; only their forms matter."""
    import torch

    from moccasin_mzn.pytorch.estimating import estimate

    made = [(each.name, torch.empty(each.shape, dtype=getattr(torch, each.dtype), device="meta")) for each in inputs]
    args = [tensor for name, tensor in made if name is None]
    kwargs = {name: tensor for name, tensor in made if name is not None}
    how = {name: value for name, value in options.items() if value is not None}
    workspaces: Workspaces = MEASURED if device == "cpu" else NONE
    return estimate(
        model, args, kwargs=kwargs, loss=loss, optimizer=optimizer, device=device, workspaces=workspaces, **how
    )


def _report_estimate(found: Estimate, plot: Path | None, as_json: bool) -> int:
    if plot is not None:
        found.plot(plot)
    if as_json:
        click.echo(json.dumps(found.as_dict()))
        return EXIT_FOUND
    click.echo(found.report())
    table = plain_table(None, ("module", "parameters", "state", "activations"), left=("module",))
    for row in found.records():
        amounts = (row["parameters"], row["optimizer_state"], row["activations"])
        table.add_row(str(row["module"]) or "outside of modules", *(memory_text(amount, "byte") for amount in amounts))
    click.echo()
    print_table(console(sys.stdout), table)
    return EXIT_FOUND


def _read(path: Path, model: nn.Module, loss: Callable[..., Tensor] | None) -> _Called:
    """Read a plan from a file; return it and random inputs of the shapes that it is for."""
    import torch

    from moccasin_mzn.pytorch.plans import Plan
    from moccasin_mzn.pytorch.side_by_side import at_random

    found = Plan.load(path, model, loss=loss)
    forms = found.traced.forms
    with torch.no_grad():
        tensors = [
            at_random(torch.empty_strided(e.shape, e.stride, dtype=getattr(torch, e.dtype), device=e.device))
            for e in forms
        ]
    args, kwargs = found.traced.arguments.filled(
        [tensor.requires_grad_(form.requires_grad) for tensor, form in zip(tensors, forms, strict=True)]
    )
    return found, args, kwargs


def _report_none(error: InputError, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"status": "none", "reason": str(error)}))
    click.echo(f"no plan: {error}", err=True)
    return EXIT_NONE


class _SearchLines(Lines):
    """Prints a line for each plan and each bound that is better, at most a few per second."""

    plan = ""
    """What the best plan does."""

    def __call__(self, progress: Progress) -> None:
        """Print the line, or delay it if one was printed just before; what ends within a second is not announced."""
        known = (progress.value, progress.peak, progress.nodes) != (None, None, None)
        if not known and progress.seconds < 1:
            return
        text, nodes = "no schedule yet" if known else progress.source, progress.nodes
        if progress.peaks is not None:
            self.plan = f"{memory_text(tuple(progress.peaks.values())[SLOW], 'byte')} in host memory"
        elif nodes is not None:
            self.plan = count_text(len(nodes) - len(set(nodes)), "recomputation")
        if progress.gap is not None:
            text = f"a plan with {self.plan}, gap {100 * progress.gap:.3f} %"
        elif progress.peak is not None:
            text += f", the least peak is {memory_text(progress.peak, 'byte')}"
        self._print(progress.seconds, text, at_once=False)
