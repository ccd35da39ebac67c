"""The command `tile`: a graph of layers becomes one of their parts."""

from __future__ import annotations

from pathlib import Path

import click

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.cli.common import GRAPH, check_apart
from moccasin_mzn.cli.graphs import OUTPUT, write_made
from moccasin_mzn.cli.options import command


@command()
@GRAPH
@click.option("--rows", type=int, metavar="N", help="Rows of a part: of images, or positions of sequences.")
@click.option("--columns", type=int, metavar="N", help="Columns of a part, where an output has them.")
@click.option("--tiles", metavar="RxC", help="Both at once, such as 4x16.")
@click.option("--channels", type=int, metavar="N", help="Channels of a part, where each is computed alone.")
@click.option(
    "--layers", multiple=True, metavar="PATTERN",
    help="Cut only layers whose id or label is such, as 'conv*'; may be given several times.  [default: all]",
)  # fmt: skip
@OUTPUT
def tile(
    graph: Path, rows: int | None, columns: int | None, tiles: str | None, channels: int | None,
    layers: tuple[str, ...], output: Path | None,
) -> int:  # fmt: skip
    """Cut the outputs of GRAPH into parts, each a node of its own, so that no layer is whole in memory.

    GRAPH must know what its nodes compute, as graphs of `import onnx`, `import tflite` and `generate network` do. Parts
    overlap in what they read, not in what they are: what is read twice is kept, or recomputed.
    """
    from moccasin_mzn.api.tiling import extents_of
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.graphs.tiling.cutting import tile as tiled_of

    if tiles is not None:
        if rows is not None or columns is not None:
            raise InputError("--tiles gives rows and columns: leave out --rows and --columns")
        if len(numbers := extents_of(tiles)) != 2:
            raise InputError(f"--tiles {shown(tiles)}: expected rows and columns of a tile, such as 4x16")
        rows, columns = numbers
    check_apart({"--output": output}, {"the graph": graph})
    whole = read_graph(graph)
    tiled = tiled_of(whole, rows=rows, columns=columns, channels=channels, layers=layers)
    layers_cut = len({part.layer for part in tiled.parts or () if part is not None})
    parts = count_text(len(tiled.nodes), "node")
    click.echo(f"{layers_cut} of {count_text(len(whole.nodes), 'layer')} cut, {parts}", err=True)
    return write_made(tiled, output)
