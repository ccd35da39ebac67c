"""The commands `import ...`: networks and graphs of other programs."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.cli.common import check_apart
from moccasin_mzn.cli.graphs import MODE, OPTIMIZER, OUTPUT, SCALE, integers, print_assumptions, write_made
from moccasin_mzn.cli.options import Choice, OptionValue, OptionValues, group

if TYPE_CHECKING:
    from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
    from moccasin_mzn.graphs.importers.onnx.file import OnnxImport
    from moccasin_mzn.graphs.importers.program import Missing

    Measure = Callable[[int], Mapping[NodeId, int]]
    Finish = Callable[[ComputationGraph, Measure | None], ComputationGraph]


FILE = click.argument("file", type=click.Path(path_type=Path))
UNKNOWN_SIZE = click.option(
    "--unknown-size", multiple=True, metavar="stop|BYTES|NAME=BYTES",
    help="Bytes to assume for outputs of unknown size: of all (64KiB), or of one (NAME=64KiB); stop: refuse the "
         "network.  [default: stop]",
)  # fmt: skip
UNKNOWN_DURATION = click.option(
    "--unknown-duration", default="elements", show_default=True, metavar="stop|elements|N",
    help="Duration to assume for operators of unknown cost: 1 for each element of the output, or N; stop: refuse the "
         "network.",
)  # fmt: skip
DIMS = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=N",
    help="Fix a dynamic dimension by its name, batch=8, or that of an input, x[0]=8.",
)
VIEWS = click.option(
    "--views", type=Choice(["copied", "shared"]), default="copied", show_default=True,
    help="Whether reshape and similar operators copy, as ONNX defines, or share memory, as in most runtimes.",
)  # fmt: skip
WORKSPACES = click.option(
    "--workspaces/--no-workspaces", default=False, show_default=True,
    help="Count the memory that ONNX Runtime takes while it computes a convolution.",
)  # fmt: skip
RESULTS = click.option(
    "--keep-results/--free-results", default=True, show_default=True,
    help="Keep all results, such as gradients, in memory to the end, or free each after its last use.",
)  # fmt: skip
FOLD = click.option(
    "--fold", type=Choice(["none", "small", "all"]), default="small", show_default=True,
    help="Compute what depends only on constants once, and store it as a constant. small: where that takes no more "
         "bytes than the constants it replaces; all: always.",
)  # fmt: skip
OPTIMIZE = click.option(
    "--optimize", type=Choice(["none", "basic", "extended", "all"]), default="none", show_default=True,
    help="First apply the graph optimizations of ONNX Runtime up to this level. extended: operators are fused; all: "
         "also for this kind of processor.",
)  # fmt: skip
ONNX_OPTIONS = (DIMS, VIEWS, WORKSPACES, RESULTS, FOLD, OPTIMIZE, UNKNOWN_SIZE, UNKNOWN_DURATION)
"""The options of how an ONNX model becomes a graph, in the order of the help."""
PROFILE = click.option(
    "--profile", "repeats", type=click.IntRange(1, 10_000), metavar="REPEATS",
    help="Measure durations on this machine, as the median of REPEATS runs.",
)  # fmt: skip


def onnx_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add `ONNX_OPTIONS`."""
    for option in reversed(ONNX_OPTIONS):
        command = option(command)
    return command


def onnx_import_in(options: OptionValues, repeats: int | None = None) -> OnnxImport:
    """Take `ONNX_OPTIONS` out of others; see `missing_of` for `repeats`.

    Raises:
        InputError: nonsense in one of them.
    """
    from moccasin_mzn.graphs.importers.onnx.file import OnnxImport
    from moccasin_mzn.graphs.importers.onnx.preparation import Fold, Optimize

    dims = integers("--dim", options.pop("dims"))
    missing = missing_of(options.pop("unknown_size"), options.pop("unknown_duration"), repeats)
    return OnnxImport(
        dims, missing, options.pop("views") == "shared", options.pop("keep_results"), options.pop("workspaces"),
        Fold(options.pop("fold")), Optimize(options.pop("optimize")),
    )  # fmt: skip


def _amounts(command: Callable[..., int]) -> Callable[..., int]:
    """Add options about durations and sizes in graph files of other programs."""
    for what, meaning in (("size", "the size of a node's output"), ("duration", "the duration of a node")):
        command = click.option(
            f"--missing-{what}",
            type=int,
            metavar="N",
            help=f"{what.capitalize()} to assume for nodes without one.  [default: refuse the file]",
        )(command)
        command = click.option(
            f"--{what}", default=what, show_default=True, metavar="NAME", help=f"The attribute that has {meaning}."
        )(command)
    return command


@group("import")
def import_() -> None:
    """Make a graph file from a network, or from a graph file of another program."""


@import_.command()
@FILE
@onnx_options
@PROFILE
@SCALE
@OUTPUT
def onnx(file: Path, repeats: int | None, scale: str | None, output: Path | None, **options: OptionValue) -> int:
    """Import an ONNX model: one node per operator, constants folded, sizes in bytes, durations in multiply-adds."""
    from moccasin_mzn.graphs.importers.onnx.file import import_onnx, versions
    from moccasin_mzn.graphs.importers.onnx.preparation import Optimize
    from moccasin_mzn.graphs.importers.onnx.profile import refuse_pipe
    from moccasin_mzn.graphs.importers.onnx.profile import versions as of_runtime

    finish = _finishing(repeats, scale)
    how = onnx_import_in(options, repeats)
    source = source_of(file, output)
    if repeats is not None:
        refuse_pipe(file)
    graph = import_onnx(file, how)
    used = versions()
    if how.optimize != Optimize.NONE:
        used.update(of_runtime())

    def measure(count: int) -> Mapping[NodeId, int]:
        from moccasin_mzn.graphs.importers.onnx.profile import profile_onnx

        used.update(of_runtime())
        return profile_onnx(file, graph, how, repeats=count)

    graph = finish(graph, measure)
    print_assumptions(graph)
    return write_made(graph, output, used, source=source)


@import_.command()
@FILE
@click.option("--inputs", type=Choice(["arena", "caller"]), default="arena", show_default=True,
              help="Where the network's inputs are: in the arena until their last read, as in TensorFlow Lite Micro, "
                   "or with the caller, no part of the graph.")  # fmt: skip
@SCALE
@OUTPUT
def tflite(file: Path, inputs: str, scale: str | None, output: Path | None) -> int:
    """Import a TFLite model: a node for each tensor in the arena, sizes in bytes, durations in multiply-adds."""
    from moccasin_mzn.graphs.importers.tflite import import_tflite, versions

    finish = _finishing(None, scale)
    source = source_of(file, output)
    return write_made(
        finish(import_tflite(file, inputs_in_arena=inputs == "arena"), None), output, versions(), source=source
    )


@import_.command()
@click.argument("spec", metavar="MODULE:FACTORY")
@click.option("--input", "inputs", multiple=True, required=True, metavar="SHAPE[:DTYPE]",
              help="An argument of the network: 8x3x224x224, 8x128:int64; once for each.")  # fmt: skip
@MODE
@OPTIMIZER
@RESULTS
@UNKNOWN_SIZE
@UNKNOWN_DURATION
@PROFILE
@SCALE
@OUTPUT
def torch(
    spec: str, inputs: tuple[str, ...], inference: bool, optimizer: str, keep_results: bool,
    unknown_size: tuple[str, ...], unknown_duration: str, repeats: int | None, scale: str | None, output: Path | None,
) -> int:  # fmt: skip
    """Import a PyTorch module, which FACTORY() of the Python module (or FILE.py:FACTORY) returns.

    THIS RUNS THE MODULE'S CODE, as python would: import nothing you would not run. Sizes are in bytes, durations in
    FLOP, a multiply-add counted as two.
    """
    from moccasin_mzn.graphs.importers.torch.graph import graph_of, versions
    from moccasin_mzn.graphs.importers.torch.trace import trace_network

    finish = _finishing(repeats, scale)
    missing = missing_of(unknown_size, unknown_duration, repeats)

    def measure(count: int) -> Mapping[NodeId, int]:
        from moccasin_mzn.graphs.importers.torch.graph import measure as measured

        return dict(measured(trace, repeats=count).items())

    with contextlib.chdir("."):  # back to this folder, wherever the module's code goes
        trace = trace_network(spec, inputs, training=not inference, optimizer=optimizer)
        graph = finish(graph_of(trace, missing, keep_results), measure)
    print_assumptions(graph)
    return write_made(graph, output, versions())


@import_.command()
@FILE
@_amounts
@OUTPUT
def graphml(file: Path, output: Path | None, **amounts: OptionValue) -> int:
    """Import GraphML, whose nodes have durations and sizes, integers, as attributes."""
    from moccasin_mzn.graphs.formats.graphml import read_graphml

    return _of_graph_file(read_graphml, file, amounts, output)


@import_.command()
@FILE
@_amounts
@OUTPUT
def dot(file: Path, output: Path | None, **amounts: OptionValue) -> int:
    """Import a digraph in Graphviz's DOT, whose nodes have durations and sizes, integers, as attributes."""
    from moccasin_mzn.graphs.formats.dot import read_dot

    return _of_graph_file(read_dot, file, amounts, output)


def _of_graph_file(
    read: Callable[..., ComputationGraph], file: Path, amounts: OptionValues, output: Path | None
) -> int:
    source = source_of(file, output)
    graph = read(file, **amounts)
    print_assumptions(graph)
    return write_made(graph, output, source=source)


def _finishing(repeats: int | None, scale: str | None) -> Finish:
    """Return a function that turns a graph's durations into time if an option is for that; check the options now."""
    from moccasin_mzn.graphs.importers.program import parse_peak, profiled, scaled

    if repeats is not None and scale is not None:
        raise InputError("--profile measures time, --scale estimates it: give one of them")
    peak = None if scale is None else parse_peak(scale)

    def finish(graph: ComputationGraph, measure: Measure | None) -> ComputationGraph:
        if repeats is not None and measure is not None:
            return profiled(graph, measure(repeats))
        return graph if peak is None else scaled(graph, peak)

    return finish


def missing_of(sizes: tuple[str, ...], duration: str, repeats: int | None) -> Missing:
    """Return the values for unknown sizes and durations; durations that will be measured are 1 until then."""
    from moccasin_mzn.graphs.importers.program import STOP, Missing

    named: dict[str, int] = {}
    size: int | str | None = None
    for text in sizes:
        name, _, amount = text.rpartition("=")
        if size is not None and not name or name in named:
            raise InputError(f"--unknown-size {shown(text)} is given twice")
        if name:
            named[name] = _amount(amount)
        else:
            size = STOP if text == STOP else _amount(amount)
    number = int(duration) if duration.isascii() and duration.isdecimal() and len(duration) < 19 else duration
    missing = Missing(STOP if size is None else size, number, named)
    return missing if repeats is None else replace(missing, duration=1)


def _amount(text: str) -> int:
    """Parse bytes, such as 65536 or 64KiB."""
    from moccasin_mzn.base.formatting import BYTE_STEPS

    for step, unit in (*BYTE_STEPS, (1, "")):
        number = text.removesuffix(unit)
        if text.endswith(unit) and number.isascii() and number.isdecimal() and len(number) < 16:
            return int(number) * step
    raise InputError(f"--unknown-size {shown(text)}: expected stop, bytes, or NAME=BYTES, with bytes such as 64KiB")


def source_of(file: Path, output: Path | None) -> dict[str, str]:
    """Return name and digest of the file that a graph is made from, and refuse an output in its place.

    A pipe can be read only once and has no digest.
    """
    check_apart({"--output": output}, {"the file to import": file})
    if not file.is_file():
        return {"file": file.name}
    try:
        with file.open("rb") as stream:
            return {"file": file.name, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
    except OSError as error:
        raise InputError(f"{file}: cannot read: {error.strerror or error}") from None
