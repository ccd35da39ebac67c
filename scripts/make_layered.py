"""Write a random layered graph, the kind the paper calls RL, as a graph file.

    python scripts/make_layered.py --nodes 1000 --seed 1 --output graph.json
    python scripts/make_layered.py --nodes 100000 --seed 1 --layer-width 21.2 --output large.json

The same program writes the same bytes for the same seed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from moccasin_mzn.errors import InputError
from moccasin_mzn.generators.random_layered import random_layered, width_of_layers
from moccasin_mzn.readers import write_graph


def main() -> None:
    """Read the command line, write the file, print its counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--width", type=float, default=0.31, help="parameter w of the paper; default 0.31")
    shape.add_argument("--layer-width", type=float, metavar="NODES", help="mean nodes in a layer, instead of w")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    try:
        layers = arguments.layer_width
        width = arguments.width if layers is None else width_of_layers(arguments.nodes, layers)
        graph = random_layered(arguments.nodes, arguments.seed, width=width)
        write_graph(graph, arguments.output)
    except InputError as error:
        sys.exit(str(error))
    print(f"{arguments.output}: {len(graph.nodes):,} nodes, {len(graph.edges):,} edges")


if __name__ == "__main__":
    main()
