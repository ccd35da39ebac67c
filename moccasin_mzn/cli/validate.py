"""The commands `validate` and `check-certificate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located
from moccasin_mzn.base.option import flag
from moccasin_mzn.cli.common import (
    COUNT_FIXED,
    EXIT_BAD_INPUT,
    EXIT_FOUND,
    EXIT_NONE,
    GRAPH,
    IN_PLACE,
    ORDER,
    ZERO_COPY_CONCAT,
    check_outputs,
    file_jobs,
    graph_read,
    graph_there,
    write_files,
)
from moccasin_mzn.cli.options import OptionValue, OptionValues, added, command, named_options
from moccasin_mzn.search.options import own_options

if TYPE_CHECKING:
    from moccasin_mzn.problem.verdict import Verdict


@command()
@click.argument("graph", type=click.Path(path_type=Path), required=False, callback=graph_there)
@click.argument("schedule", type=click.Path(path_type=Path), required=False)
@click.option("--budget", metavar="0.8|80%|BYTES|1.5GiB", help="Memory budget.  [default: that in SCHEDULE]")
@ORDER
@COUNT_FIXED
@IN_PLACE
@ZERO_COPY_CONCAT
@click.option("--arrays", is_flag=True,
              help="SCHEDULE is what MiniZinc printed for an exported instance; - reads standard input.")  # fmt: skip
@added(*named_options("formulation", *own_options(), "like"))
@click.option("--max-computations", metavar="C|auto|FILE", help="With --arrays: as for `export`.  [default: 2]")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="With --arrays: write the schedule."
)
@click.option("--best-known", type=click.Path(path_type=Path), metavar="TABLE.csv",
              help="In place of GRAPH and SCHEDULE: check a table of best-known values and its files.")  # fmt: skip
def validate(
    graph: Path | None, schedule: Path | None, budget: str | None, order: str, count_fixed: bool, in_place: bool,
    zero_copy_concat: bool, arrays: bool, output: Path | None, best_known: Path | None, **model: OptionValue,
) -> int:  # fmt: skip
    """Check that SCHEDULE, wherever it comes from, is a valid schedule of GRAPH within the budget.

    Exit status 0: it is valid; 1: it is not, and the first violation is printed. SCHEDULE is a JSON list of node ids,
    or an object such as `solve --output` writes; a plan for several memories is judged by the platform in its file.
    --order matters only for a budget that is a fraction, and with --arrays, which needs the options given to `export`.
    """
    model = {name: value for name, value in model.items() if value is not None}
    if best_known is not None:
        if any((graph, budget, in_place, zero_copy_concat, arrays, output, model)):
            raise InputError("--best-known: a table has its own graphs, budgets and schedules")
        return _validate_best_known(best_known)
    if graph is None or schedule is None:
        hint = "GRAPH" if graph is None else "SCHEDULE"
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param_hint=f"'{hint}'", param_type="argument")
    if arrays and zero_copy_concat:
        raise InputError("--zero-copy-concat: `export` has no such option, make a graph by `zero-copy` for both")
    if arrays:
        others = {"the order": order, "a limit of computations": model.get("max_computations")}
        others["the model"] = model.get("model")
        check_outputs({"--output": output}, {"the graph": graph, "what MiniZinc printed": schedule, **others})
        options = {"budget": budget, "order": order, "count_fixed": count_fixed, "in_place": in_place, **model}
        return _validate_arrays(graph, schedule, options, output)
    for name in (*model, *(["output"] if output is not None else [])):
        raise InputError(f"{flag(name)} goes with --arrays")
    return _validate_file(graph, schedule, budget, order, count_fixed, (in_place, zero_copy_concat))


def _validate_file(
    graph: Path, schedule: Path, budget: str | None, order: str, count_fixed: bool, problem: tuple[bool, bool]
) -> int:
    """Judge the schedule or plan in a file; `problem`: does it run in place, and without concatenations?"""
    from moccasin_mzn.base.files import load_json
    from moccasin_mzn.graphs.zero_copy import alignment_for
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.problem.validate import judged_arenas
    from moccasin_mzn.problem.verdict import verdict

    document, amount = load_json("/dev/stdin" if str(schedule) == "-" else schedule, Page.PLAN_FORMAT), None
    computation_graph = graph_read(graph, *problem, alignment_for(document))
    if budget is not None:
        amount = Instance.build(computation_graph, budget, order=order, count_fixed=count_fixed).budget
    with located(schedule), explained(Page.PLAN_FORMAT):
        found = verdict(computation_graph, document, amount)
    noun = "plan" if found.platform else "schedule"
    return _print_verdict(found, [*judged_arenas(noun, found.arenas), *found.notes])


def _validate_arrays(graph: Path, printed: Path, options: OptionValues, output: Path | None) -> int:
    """Decode the last solution that MiniZinc printed, and judge it."""
    from moccasin_mzn.api.question import Question
    from moccasin_mzn.base.files import load_text
    from moccasin_mzn.formulations.exporting import decoded, read_solution
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.problem.files.plan_format import versioned
    from moccasin_mzn.problem.problem import answer_document
    from moccasin_mzn.problem.verdict import verdict

    if options["budget"] is None:
        raise InputError("--budget: with --arrays give that of the export")
    text = sys.stdin.read() if str(printed) == "-" else load_text(printed)
    instance, form, _ = Question.of(options, spelled=flag).modelled(read_graph(graph))
    with located("stdin" if str(printed) == "-" else printed):
        sequence = decoded(instance, form, read_solution(text))
    found = verdict(instance.graph, [instance.graph.nodes[v] for v in sequence], instance.budget)
    document = answer_document(instance, sequence, instance.judge(sequence), None)
    if not found.violations:
        document = versioned(instance.graph, sequence, document)
    if not write_files(file_jobs((output, lambda: json.dumps(document) + "\n"))):
        return EXIT_BAD_INPUT
    return _print_verdict(found, ())


def _validate_best_known(table: Path) -> int:
    """Check each line of the table, and print one verdict each."""
    from moccasin_mzn.bench.best_known import checked, read_table, summary
    from moccasin_mzn.cli.bench_run import generated

    rows, wrong = read_table(table), 0
    for row in rows:
        try:
            checked(row, table.parent, generated)
        except InputError as error:
            wrong += 1
            click.echo(f"invalid: {error}")
        else:
            click.echo(f"valid: {row.label}: {row.status}, certified {row.certified_percent:.1f} %")
    click.echo(summary(rows))
    return EXIT_NONE if wrong else EXIT_FOUND


def _figures(found: Verdict) -> str:
    from moccasin_mzn.base.formatting import memory_text
    from moccasin_mzn.graphs.wording import total_text
    from moccasin_mzn.problem.judges.schedules import Simulation
    from moccasin_mzn.problem.platform import OBJECTIVES

    graph, unit, account = found.graph, found.graph.size_unit, found.account
    if isinstance(account, Simulation):
        within = "no budget" if found.budget is None else f"budget {memory_text(found.budget, unit)}"
        duration = total_text(graph, "duration", account.duration)
        return f"peak {memory_text(account.peak, unit)}, duration {duration}, {within}"
    assert found.platform is not None
    peaks = zip(found.platform.memories, account.peaks, strict=True)
    figures = [f"peak in {memory.name} {memory_text(peak, unit)}" for memory, peak in peaks]
    return ", ".join([*figures, *(f"{what} {total_text(graph, what, account.total(what))}" for what in OBJECTIVES)])


def _print_verdict(found: Verdict, more_lines: Sequence[str]) -> int:
    """Print the verdict, what it covers, and notes; return the exit status."""
    from moccasin_mzn.base.formatting import count_text

    violations = found.violations
    click.echo(f"invalid: {violations[0].message}" if violations else f"valid: {_figures(found)}")
    if len(violations) > 1:
        more = count_text(len(violations) - 1, "more violation")
        click.echo(f"and {more}")
    for line in more_lines:
        click.echo(line)
    return EXIT_NONE if violations else EXIT_FOUND


# --- check-certificate ----------------------------------------------------------------------------------------


@command("check-certificate")
@GRAPH
@click.argument("file", metavar="CERTIFICATE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_certificate(graph: Path, file: Path, as_json: bool) -> int:
    """Check CERTIFICATE, which `solve --certificate` made for GRAPH, and print what it proves.

    Exit status 2: it proves nothing, and the first error is printed. The checker needs no solver; it computes in exact
    integers.
    """
    from moccasin_mzn.base.errors import InputError
    from moccasin_mzn.base.files import load_json
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.problem.judges.certificates import CertificateError
    from moccasin_mzn.problem.judges.certificates import check_certificate as check
    from moccasin_mzn.report.schedules import certificate_lines, proven_dict

    computation_graph = read_graph(graph)
    try:
        proven = check(computation_graph, load_json(file, Page.CERTIFICATES))
    except CertificateError as error:
        raise InputError(Page.CERTIFICATES.after(f"{file}: {error}")) from None
    if as_json:
        click.echo(json.dumps(proven_dict(proven)))
    else:
        for line in certificate_lines(computation_graph, proven):
            click.echo(line)
    return EXIT_FOUND
