"""What runtimes take for tensors, by their own planners and with plans: TensorFlow Lite Micro and ONNX Runtime.

    python scripts/bench_arenas.py FOLDER [--list LIST] [--time-limit 10]

FOLDER and LIST are as of `package_models.py`. Of each model a schedule in any order is searched for that takes no more
than the runtime does by itself; files that the runtime does not run are named.

- own: the arena that TensorFlow Lite Micro reports for the file as it is; of ONNX Runtime the peak of values in its own
  order, without graph optimizations
- planned: what the plan needs, scratch and alignment included
- reported: what the runtime reports for the file that follows the plan; both in bytes
- equal: outputs are those of the file as it is, bit for bit
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
from row_tables import print_columns

from moccasin_mzn import solve
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.onnx_comparing import compare
from moccasin_mzn.deploy.onnx_deployment import deploy, read_source
from moccasin_mzn.deploy.source import planned
from moccasin_mzn.deploy.tflite_model import planned_model
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport
from moccasin_mzn.graphs.importers.tflite import ALIGNMENT, graph_of, read_model

HEADINGS = ("package", "file", "nodes", "own", "planned", "reported", "of own", "equal")


def of_tflite(path: Path, folder: Path, seconds: float) -> list[str]:
    """A row of the table.

    Raises:
        InputError: the file cannot be scheduled, there is no schedule, or TensorFlow Lite Micro does not run it.
    """
    model = read_model(path)
    graph = graph_of(model, path.stem)
    before, expected = micro(path)
    found = solve(graph, before, order="free", addresses=True, alignment=ALIGNMENT, time_limit=seconds)
    if not found.valid:
        raise InputError(f"{found.status}: {found.reason}")
    new = folder / "new.tflite"
    new.write_bytes(planned_model(model, planned(found.details)))
    after, outputs = micro(new)
    arena = -(-found.arena // ALIGNMENT) * ALIGNMENT
    same = all(numpy.array_equal(one, other) for one, other in zip(outputs, expected, strict=True))
    return row(len(graph.nodes), before, arena, after, same)


def micro(path: Path) -> tuple[int, list[Any]]:
    """The bytes that the arena has for tensors, and the outputs of a run on random inputs.

    Raises:
        InputError: TensorFlow Lite Micro does not run the file.
    """
    from tflite_micro.python.tflite_micro import runtime

    try:
        interpreter = runtime.Interpreter.from_file(str(path), arena_size=2**28)
    except RuntimeError as error:
        raise InputError(f"TensorFlow Lite Micro: {error}") from None
    random, model = numpy.random.default_rng(0), read_model(path)
    for at in range(len(model.subgraphs[0].inputs)):
        about = interpreter.get_input_details(at)
        values = random.normal(size=about["shape"]) if about["dtype"] == numpy.float32 else random.integers(
            0, 2, about["shape"])  # fmt: skip
        interpreter.set_input(values.astype(about["dtype"]), at)
    interpreter.invoke()
    report = printed(interpreter.print_allocations)
    outputs = [interpreter.get_output(at).copy() for at in range(len(model.subgraphs[0].outputs))]
    return int(re.search(r"head (\d+) bytes", report)[1]), outputs  # type: ignore[index]


def printed(report: Any) -> str:
    """What a function of another language prints."""
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        kept = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            report()
        finally:
            for number, former in zip((1, 2), kept, strict=True):
                os.dup2(former, number)
                os.close(former)
        file.seek(0)
        return file.read().decode(errors="replace")


def of_onnx(path: Path, dims: dict[str, int], seconds: float) -> list[str]:
    """A row of the table.

    Raises:
        InputError: the file cannot be imported or run, or there is no schedule.
    """
    source = read_source(path, OnnxImport(dims), in_place=True)
    former = deploy(source, source.graph.input_order())
    own = compare(former.model, former.original, folder=path.parent, in_place=True).usual_peak
    found = solve(source.graph, own, order="free", time_limit=seconds)
    if not found.valid:
        raise InputError(f"{found.status}: {found.reason}")
    deployed = deploy(source, found.details.sequence)
    measured = compare(deployed.model, deployed.original, folder=path.parent, in_place=True)
    return row(len(source.graph.nodes), own, deployed.planned_values, measured.peak, bool(measured.equal))


def row(nodes: int, own: int, plan: int, reported: int, same: bool) -> list[str]:
    return [f"{nodes:,}", f"{own:,}", f"{plan:,}", f"{reported:,}", f"{reported / own:.3f}", "yes" if same else "no"]


def rows(folder: Path, lines: Sequence[str], seconds: float) -> Iterator[list[str]]:
    for line in lines:
        package, *dims, name = line.split()
        path = folder / name
        about = [package.replace("==", " "), path.name]
        if not path.exists():
            continue
        try:
            with tempfile.TemporaryDirectory() as temporary:
                found = (
                    of_tflite(path, Path(temporary), seconds)
                    if path.suffix == ".tflite"
                    else of_onnx(path, {name: int(at) for name, at in (each.rsplit("=", 1) for each in dims)}, seconds)
                )
        except InputError as error:
            print(f"{' '.join(about)}: {error}", file=sys.stderr)
            continue
        yield [*about, *found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", type=Path, default=Path(__file__).with_name("package_models.txt"))
    parser.add_argument("--time-limit", type=float, default=10)
    arguments = parser.parse_args()
    lines = [line for line in arguments.list.read_text().splitlines() if line.strip()]
    print_columns(HEADINGS, rows(arguments.folder, lines, arguments.time_limit), HEADINGS[:2])


if __name__ == "__main__":
    main()
