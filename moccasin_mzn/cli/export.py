"""The command `export`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
from cloup import option, option_group

from moccasin_mzn.cli.common import COUNT_FIXED, EXIT_BAD_INPUT, EXIT_FOUND, GRAPH, IN_PLACE, ORDER, file_jobs
from moccasin_mzn.cli.making import command_line
from moccasin_mzn.cli.outputs import check_outputs, write_files
from moccasin_mzn.cli.strict import command
from moccasin_mzn.cli.typed import typed
from moccasin_mzn.errors import InputError
from moccasin_mzn.search.options import own_options


@command()
@GRAPH
@option_group(
    "Problem",
    option("--budget", required=True, metavar="0.8|80%|BYTES|1.5GiB", help="Most memory, as for solve."),
    option("--max-computations", metavar="C|auto|FILE", help="How often a node may be computed.  [default: 2]"),
    ORDER,
    COUNT_FIXED,
    IN_PLACE,
    option("--warm-start", type=click.Path(path_type=Path), metavar="FILE", help="A schedule to start from."),
)
@option_group("Model", *typed("formulation", *own_options(), "like"))
@option_group(
    "Output",
    option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FILE.dzn|FILE.json|FOLDER",
           help="Data for the model; a folder: model, data and checker, which need nothing of this package."),
    option("--fzn", is_flag=True, help="Write what a solver gets, FlatZinc, into the file instead."),
    option("--solver", metavar="NAME", help="For --fzn: whose FlatZinc.  [default: cp-sat]"),
    option("--format", "program", type=click.Choice(["mps", "lp"]),
           help="Write a mixed-integer program into the file instead, for the formulations that are one."),
)  # fmt: skip
def export(graph: Path, output: Path, fzn: bool, solver: str | None, program: str | None, **options: Any) -> int:
    """Write GRAPH and a budget as files that plain MiniZinc solves, and say how.

    `validate --arrays` reads what MiniZinc prints, decodes it and judges it.
    """
    from moccasin_mzn.api.request import instance_of
    from moccasin_mzn.formulations.exporting import (
        CHECKER,
        DATA,
        MODEL,
        configurations,
        data_text,
        mixed_integer_program,
        standalone,
        uncounted,
    )
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.solvers.minizinc.run import compile_model, json_text
    from moccasin_mzn.solvers.minizinc.solvers import find_backend

    if solver is not None and not fzn:
        raise InputError("--solver is for --fzn: data and models are the same for all solvers")
    if fzn and program is not None:
        raise InputError("--fzn and --format: give one of them")
    in_place = options.pop("in_place")
    others = {"a limit of computations": options["max_computations"], "the warm start": options["warm_start"]}
    others["the model"] = options["model"]
    inputs = {"the graph": graph, "the order": options["order"], **others}
    is_compiled = fzn or program is not None
    is_file = is_compiled or output.suffix in (".dzn", ".json")
    if is_file:
        check_outputs({"--output": output}, inputs)
    problem = {name: options.pop(name) for name in ("budget", "order", "count_fixed")}
    given = {name: value for name, value in options.items() if value is not None}
    instance, form, start = instance_of(given, read_graph(graph).run_in_place(in_place), **problem)
    if start is not None:
        form.check_start(instance, start)
    data = form.data(instance)
    if output.suffix == ".json" and not is_compiled:
        text = json_text(form.items(instance, data, start, None))
    else:
        text = data_text(instance, form, data, command_line(), start)
    if program is not None:
        made = {output: mixed_integer_program(form, text, program)}
    elif fzn:
        made = {output: compile_model(find_backend(solver or "cp-sat"), form.program, text)}
    elif is_file:
        made = {output: text}
    else:
        output.mkdir(parents=True, exist_ok=True)
        texts = {**standalone(form), **configurations(start is not None), DATA: text}
        made = {output / name: content for name, content in texts.items()}
    if not write_files(file_jobs(*((path, lambda text=text: text) for path, text in made.items()))):
        return EXIT_BAD_INPUT
    if not is_compiled:
        if wide := uncounted(form, data):
            click.echo(f"note: {wide}", err=True)
        place = (MODEL, CHECKER, DATA) if not is_file else (form.file, form.checker_file, output)
        click.echo(f"minizinc --solver cp-sat {shlex.join(map(str, place))}")
    return EXIT_FOUND
