"""The commands `plot` and `export`: a schedule as a picture, an instance as files for MiniZinc."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from cloup import option, option_group

from moccasin_mzn.base.commands import command as command_text
from moccasin_mzn.base.commands import word
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, located
from moccasin_mzn.base.option import flag
from moccasin_mzn.cli.common import (
    COUNT_FIXED,
    EXIT_BAD_INPUT,
    EXIT_FOUND,
    GRAPH,
    IN_PLACE,
    MAX_COMPUTATIONS,
    ORDER,
    check_outputs,
    file_jobs,
    write_files,
)
from moccasin_mzn.cli.invocation import command_line
from moccasin_mzn.cli.options import Choice, OptionValue, OptionValues, command, named_options, problem_options
from moccasin_mzn.search.options import own_options

if TYPE_CHECKING:
    from moccasin_mzn.formulations import Formulation


@command()
@GRAPH
@click.argument("schedule", type=click.Path(path_type=Path))
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE",
              help="The picture: .png, .svg, .pdf, or interactive .html.  [default: text on stdout]")  # fmt: skip
@click.option("--budget", metavar="0.8|80%|BYTES|1.5GiB", help="Memory budget.  [default: that in SCHEDULE]")
@click.option("--by", default="event", show_default=True, metavar="event|stage",
              help="Horizontal axis: steps of the schedule, or stages.")  # fmt: skip
@ORDER
@COUNT_FIXED
def plot(
    graph: Path, schedule: Path, output: Path | None, budget: str | None, by: str, order: str, count_fixed: bool
) -> int:  # fmt: skip
    """Draw SCHEDULE of GRAPH: retention intervals, and the memory with it and in the input order.

    SCHEDULE is a JSON list of node ids, or an object such as `solve --output` writes, whose sequence and
    the budget are used; or a plan for several memories, each of which gets a panel. It may exceed the budget. Pictures
    in files need more packages: pip install -e '.[plot]' in the checkout.
    """
    from moccasin_mzn.base.files import load_json
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.graphs.zero_copy import changed_for
    from moccasin_mzn.problem.files.plans import is_plan, read_plan
    from moccasin_mzn.problem.files.schedules import read_schedule
    from moccasin_mzn.problem.instance import Instance, chosen_order
    from moccasin_mzn.report.plots.files import render_text, write_picture
    from moccasin_mzn.report.plots.picture import AXES, Picture, check_axis

    check_outputs({"--plot": output}, {"the graph": graph, "the schedule": schedule, "the order": order})
    check_axis(by)
    if output is None and by != AXES[0]:
        raise InputError(f"--by {by} is for files: text counts events")
    document = load_json(schedule, Page.PLAN_FORMAT)
    computation_graph, several = changed_for(read_graph(graph), document), is_plan(document)
    if several and budget is not None:
        raise InputError("--budget: a plan is drawn with the budgets of its memories, which its file has")
    if several:
        plan = read_plan(schedule, computation_graph)
        positions = chosen_order(plan.platform.graph, order)
        with located(schedule):
            picture = Picture(plan.platform, plan.plan, positions, by)
    else:
        positions = chosen_order(computation_graph, order)
        claimed = read_schedule(schedule, computation_graph)
        amount = claimed.budget
        if budget is not None:
            amount = Instance.build(computation_graph, budget, order=positions, count_fixed=count_fixed).budget
        with located(schedule):
            picture = Picture.of_schedule(computation_graph, claimed.sequence, positions, amount, by)
    if output is None:
        click.echo(render_text(picture), nl=False)
    else:
        write_picture(output, picture)
    return EXIT_FOUND


# --- export ---------------------------------------------------------------------------------------------------


@command()
@GRAPH
@option_group(
    "Problem",
    option("--budget", required=True, metavar="0.8|80%|BYTES|1.5GiB", help="Memory budget, in the form of `solve`."),
    MAX_COMPUTATIONS,
    ORDER,
    COUNT_FIXED,
    IN_PLACE,
    *problem_options("warm_start", help="Write the schedule in this file as a warm start."),
)
@option_group("Model", *named_options("formulation", *own_options(), "like"))
@option_group(
    "Output",
    option("--output", "-o", required=True, type=click.Path(path_type=Path), metavar="FILE.dzn|FILE.json|FOLDER",
           help="The data for the model; or a folder for model, data and checker, which need nothing of this package."),
    option("--fzn", is_flag=True, help="Write FlatZinc, which is what a solver reads, in place of the data."),
    option("--solver", metavar="NAME", help="With --fzn: the solver for which it is compiled.  [default: cp-sat]"),
    option("--format", "program", type=Choice(["mps", "lp"]),
           help="Write a mixed-integer program in place of the data; for formulations that are one."),
)  # fmt: skip
def export(
    graph: Path, output: Path, fzn: bool, solver: str | None, program: str | None, **options: OptionValue
) -> int:
    """Write GRAPH and a budget as files that plain MiniZinc solves, and print the command that does it.

    `validate --arrays` checks what MiniZinc prints.
    """
    from moccasin_mzn.api.question import Question
    from moccasin_mzn.formulations.exporting import (
        CHECKER,
        DATA,
        MODEL,
        configurations,
        data_text,
        standalone,
        uncounted,
    )
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.solvers.minizinc.run import json_text

    if solver is not None and not fzn:
        raise InputError("--solver is for --fzn: data and models are the same for all solvers")
    if fzn and program is not None:
        raise InputError("--fzn and --format: give one of them")
    others = {"a limit of computations": options["max_computations"], "the warm start": options["warm_start"]}
    others["the model"] = options["model"]
    inputs = {"the graph": graph, "the order": options["order"], **others}
    is_compiled = fzn or program is not None
    is_file = is_compiled or output.suffix in (".dzn", ".json")
    if is_file:
        check_outputs({"--output": output}, inputs)
    instance, form, start = Question.of(options, spelled=flag).modelled(read_graph(graph))
    if start is not None:
        form.check_start(instance, start)
    data = form.data(instance)
    if output.suffix == ".json" and not is_compiled:
        text = json_text(form.items(instance, data, start, None))
    else:
        text = data_text(instance, form, data, command_line(), start)
    if is_compiled:
        made = {output: _compiled(form, text, program, solver or "cp-sat")}
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
        folder = [output / name for name in (MODEL, CHECKER, DATA)]
        back = _back(graph, options)
        _print_use([form.file, form.checker_file, output] if is_file else folder, back)
    return EXIT_FOUND


def _back(graph: Path, options: OptionValues) -> str:
    """Return the command that judges what MiniZinc prints, and writes the schedule."""
    words: list[object] = []
    for name, value in options.items():
        if value is True:
            words.append(flag(name))
        elif name != "warm_start" and value not in (None, False) and (name, value) != ("order", "input"):
            words += [flag(name), value]
    return command_text("validate", graph, "-", *words, "--arrays", "--output", "schedule.json")


def _print_use(files: list[Path], back: str) -> None:
    """Print the command that solves what is written, before it what is still to be installed, and after it the same
    with what judges the answer."""
    from moccasin_mzn.solvers.flatzinc import configuration as install
    from moccasin_mzn.solvers.minizinc.solvers import CP_SAT

    own = CP_SAT.configuration()
    if not install.minizinc_is_there():
        click.echo("MiniZinc is not on PATH yet; once it is:")
    if not install.is_known(own):
        click.echo(f"{command_text('install-solver')}    # once: MiniZinc does not know cp-sat yet")
    solving = shlex.join(["minizinc", "--solver", install.called(own), *map(word, files)])
    click.echo(solving)
    click.echo(f"{solving} | {back}    # judges the answer, writes the schedule")


def _compiled(form: Formulation, data: str, program: str | None, solver: str) -> str:
    """Return the mixed-integer program, "mps" or "lp", or without one the FlatZinc of a solver."""
    from moccasin_mzn.formulations.exporting import mixed_integer_program
    from moccasin_mzn.solvers.minizinc.run import compile_model
    from moccasin_mzn.solvers.minizinc.solvers import find_backend

    if program is not None:
        return mixed_integer_program(form, data, program)
    return compile_model(find_backend(solver), form.program, data)
