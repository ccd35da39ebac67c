"""The command `deploy c`: an int8 network as C that runs in the arena of its plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.errors import InputError, located
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.base.option import flag
from moccasin_mzn.cli.common import EXIT_BAD_INPUT, EXIT_FOUND, EXIT_NONE, ZERO_COPY_CONCAT, check_apart, check_outputs
from moccasin_mzn.cli.deploy_options import (
    EFFORT,
    JSON,
    TILE,
    Kept,
    files_read,
    keeping,
    output,
    schedule_of,
    search_asked,
    searched_dict,
    searching,
)
from moccasin_mzn.cli.options import OptionValue, command

if TYPE_CHECKING:
    from moccasin_mzn.deploy.c.network import Network
    from moccasin_mzn.deploy.c.program import Program
    from moccasin_mzn.deploy.c.summary import CompiledSizes
    from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
    from moccasin_mzn.problem.runtime_plan import RuntimePlan
    from moccasin_mzn.search.result import Result


@command()
@click.argument("model", type=click.Path(path_type=Path))
@output("The folder to write.")
@click.option("--alignment", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Make offsets multiples of this; kernels need none.")  # fmt: skip
@click.option(
    "--prefix",
    default="model",
    show_default=True,
    metavar="NAME",
    help="Begin the names of files and functions with this, so that a program may have several networks.",
)
@TILE
@ZERO_COPY_CONCAT
@click.option("--tests", type=click.IntRange(1, 1000), default=1, show_default=True, metavar="N",
              help="Random inputs that the test program runs, drawn with --seed.")  # fmt: skip
@searching(default="60, for offsets alone 10")
@keeping()
@JSON
def c(
    model: Path, output: Path, alignment: int, prefix: str, tile: str | None, zero_copy_concat: bool, tests: int,
    as_json: bool, **options: OptionValue,
) -> int:  # fmt: skip
    """Write the int8 TFLite MODEL as a folder of C99 that runs in one static array: the arena.

    The folder has kernels, the network with its weights, a Makefile, and a test with random inputs and what LiteRT's
    reference kernels output for them; `make` in the folder runs it. Inputs and outputs of the network are the
    caller's and not in the arena. Without --budget each operator is computed once, in the order of MODEL. With
    --tile, kernels compute outputs in parts, and read parts where they lie: nothing is copied or padded. With
    --zero-copy-concat, what reads a concatenation reads its inputs where they lie, side by side, wherever they can.

    Operators of other types than int8, and those that have no kernel, are named, and nothing is written. Exit status 1:
    there is no schedule within the budget.
    """
    from moccasin_mzn.api.modes import asked, refuse_ways
    from moccasin_mzn.base.files import replace_file
    from moccasin_mzn.deploy.c.deployment import folder_of
    from moccasin_mzn.deploy.c.network import network_of
    from moccasin_mzn.deploy.c.summary import compiled_sizes, summary
    from moccasin_mzn.graphs.importers.tflite import read_model

    ways = asked({"zero_copy_concat": zero_copy_concat, "tile": tile}, flag)
    refuse_ways(ways, ways)
    names, kept = _file_names(prefix), Kept.taken_from(options)
    _check_folder(output, names, files_read(options, model=model), kept)
    network_model = read_model(model)
    with located(model):
        network = network_of(network_model, model.stem)
    found = _program(network, alignment, tile, zero_copy_concat, options)
    if found is None:
        return EXIT_NONE
    program, graph, plan, searched = found
    with located(model):
        texts = folder_of(program, tests, options["seed"] or 0, prefix)
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{output}: cannot make this folder: {error.strerror or error}") from None
    for name in names:
        replace_file(output / name, texts[name])
    all_written, compiled = kept.written(graph, plan), compiled_sizes(texts, prefix)
    shown = f"{output}: {_text(program)}\n{summary(program, compiled)}"
    click.echo(json.dumps(_document(program, compiled, names, searched)) if as_json else shown)
    return EXIT_FOUND if all_written else EXIT_BAD_INPUT


def _file_names(prefix: str) -> tuple[str, ...]:
    """The files of the folder.

    Raises:
        InputError: the prefix is no identifier.
    """
    from moccasin_mzn.deploy.c.writing import KERNELS, check_prefix

    check_prefix(prefix)
    return (*KERNELS, f"{prefix}.h", f"{prefix}.c", "test.c", "Makefile")


def _check_folder(folder: Path, names: Sequence[str], inputs: dict[str, object], kept: Kept) -> None:
    """Refuse a folder that cannot be written, or whose files would overwrite an input or what is kept."""
    check_outputs(kept.outputs, inputs)
    if folder.is_dir():
        for name in names:
            check_outputs({"--output": folder / name, **kept.outputs}, inputs)
    else:
        check_apart({"--output": folder, **kept.outputs}, inputs)
        if folder.exists():
            raise InputError(f"{folder}: is no folder")
        check_outputs({"--output": folder}, inputs)


def _program(
    network: Network, alignment: int, tile: str | None, zero_copy: bool, options: dict[str, OptionValue]
) -> tuple[Program, ComputationGraph, RuntimePlan, Result | None] | None:
    """The program of the plan that is searched for, or of the order of the model, the graph, the plan, and what was
    found; None: no plan is within the budget."""
    from moccasin_mzn.api.tiling import Target
    from moccasin_mzn.deploy.c.deployment import plan_in_order
    from moccasin_mzn.deploy.c.program import check_inputs, program_of
    from moccasin_mzn.deploy.source import planned
    from moccasin_mzn.graphs.zero_copy import zero_copy_concat
    from moccasin_mzn.search.options import Effort

    search, graph = search_asked(options, alignment, EFFORT, tile), network.graph
    taken_out: dict[NodeId, tuple[NodeId, ...]] = {}
    if zero_copy:
        found = zero_copy_concat(graph, alignment)
        click.echo(found.text(), err=True)
        graph, nodes = found.graph, graph.nodes
        taken_out = {nodes[v]: tuple(nodes[u] for u in leaves) for v, leaves in found.taken_out.items()}
    check_inputs(network, taken_out)
    if search is None:
        effort = Effort(*(options[name] for name in EFFORT))
        plan = plan_in_order(graph, alignment, effort)
        return program_of(network, graph, plan, taken_out), graph, plan, None
    result = schedule_of(graph, search, Target(network.cut))
    if result is None:
        return None
    graph, plan = result.problem.graph, planned(result)
    return program_of(network, graph, plan, taken_out), graph, plan, result


def _document(
    program: Program, compiled: CompiledSizes | str, names: Sequence[str], searched: Result | None
) -> JsonObject:
    """The same for JSON."""
    from moccasin_mzn.deploy.c.summary import figures

    return {
        "arena": program.arena, "steps": len(program.calls), "layers": len(program.network.layers),
        "work": program.work, **figures(program, compiled), "files": [*names], **searched_dict(searched),
    }  # fmt: skip


def _text(program: Program) -> str:
    """Arena, steps, and how much is computed, in a line."""
    steps = count_text(len(program.calls), "step")
    layers = count_text(len(program.network.layers), "layer")
    return f"arena {program.arena:,} bytes, {steps} of {layers}, {program.work:.3f} times the multiply-adds of one pass"
