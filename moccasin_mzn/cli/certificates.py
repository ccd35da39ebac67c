"""The command `check-certificate`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND, GRAPH
from moccasin_mzn.cli.strict import command
from moccasin_mzn.doc_links import Page


@command("check-certificate")
@GRAPH
@click.argument("file", metavar="CERTIFICATE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_certificate(graph: Path, file: Path, as_json: bool) -> int:
    """Check CERTIFICATE, made by `solve --certificate`, of GRAPH: tell what it proves, or what is wrong with it.

    No solver is asked: the checker knows the graph, and counts in integers.
    """
    from moccasin_mzn.errors import InputError
    from moccasin_mzn.files import load_json
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.problem.judges.certificates import CertificateError
    from moccasin_mzn.problem.judges.certificates import check_certificate as check
    from moccasin_mzn.report.certificates import certificate_lines, proven_dict

    computation_graph = read_graph(graph)
    try:
        proven = check(computation_graph, load_json(file, Page.CERTIFICATES))
    except CertificateError as error:
        raise InputError(Page.CERTIFICATES.after(f"{file}: {error}")) from None
    if as_json:
        click.echo(json.dumps(proven_dict(computation_graph, proven)))
    else:
        for line in certificate_lines(computation_graph, proven):
            click.echo(line)
    return EXIT_FOUND
