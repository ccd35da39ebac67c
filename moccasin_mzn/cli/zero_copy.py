"""The command `zero-copy`: a graph without the concatenations that need copy nothing."""

from __future__ import annotations

from pathlib import Path

import click

from moccasin_mzn.cli.common import GRAPH, check_apart
from moccasin_mzn.cli.graphs import OUTPUT, write_made
from moccasin_mzn.cli.options import command


@command("zero-copy")
@GRAPH
@click.option(
    "--alignment", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="Addresses are to be multiples of it: 16 for TFLite Micro.",
)  # fmt: skip
@OUTPUT
def zero_copy(graph: Path, alignment: int, output: Path | None) -> int:
    """Take the concatenations out of GRAPH whose inputs, side by side in memory, are their output.

    GRAPH must know what its nodes compute, as graphs of `import onnx` and `import tflite` do. Nodes that read such a
    concatenation read its inputs, as one: with addresses each lies directly after the one before. The other
    concatenations stay, and copy; a line reports why.
    """
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.graphs.zero_copy import zero_copy_concat

    check_apart({"--output": output}, {"the graph": graph})
    found = zero_copy_concat(read_graph(graph), alignment)
    click.echo(found.text(), err=True)
    return write_made(found.graph, output)
