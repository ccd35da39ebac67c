"""The command line. Exit status 0: a valid schedule; 1: none; 2: bad usage or input, with one line that explains it."""

from __future__ import annotations

import json
import sys
from collections import UserDict
from importlib import import_module

import click
import cloup

from moccasin_mzn.base.commands import PROGRAM
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, out_of_memory, require_address_space
from moccasin_mzn.base.log import notes_on_stderr
from moccasin_mzn.base.terminal import FAILED
from moccasin_mzn.cli.options import group

EXAMPLES = {
    "solve": "GRAPH --budget 0.8 --time-limit 60 -o schedule.json --plot schedule.svg",
    "frontier": "GRAPH --points 10 --time-limit 60 --plot front.svg",
    "order": "GRAPH -o order.json",
    "compare": "GRAPH --budget 0.9 --budget 0.8 --only 'chen-*' --only dtr",
    "allocate": "BUFFERS.csv --alignment 64 -o OFFSETS.csv",
    "run torch": "my.module:make --input 8x3x224x224 --budget 0.5",
    "deploy c-header": "plan.json -o plan.h",
    "deploy onnx": "MODEL.onnx MODEL.plan.json -o NEW.onnx --check",
    "deploy c": "resnet8.tflite --tile auto --budget 16KiB --time-limit 20 -o c",
    "deploy tflite": "model.tflite --budget 0.9 -o new.tflite",
    "validate": "GRAPH SCHEDULE --budget 0.8",
    "check-certificate": "GRAPH CERTIFICATE",
    "plot": "GRAPH SCHEDULE -o schedule.html",
    "info": "GRAPH --budget 0.8 --features",
    "generate layered": "--nodes 100 --seed 1 -o layered.json",
    "generate u-shaped": "--nodes 40 --seed 2 -o u.json",
    "generate chain": "--nodes 50 --seed 3 -o chain.json",
    "generate random-dag": "--nodes 40 --seed 1 -o dag.json",
    "generate network": "resnet50 --batch 64 --training -o resnet50.json",
    "import onnx": "MODEL.onnx -o model.json",
    "import tflite": "model.tflite -o model.json",
    "import torch": "my.module:make --input 8x3x224x224 --training -o my.json",
    "import graphml": "FILE -o g.json",
    "import dot": "FILE.dot -o g.json",
    "reduce": "GRAPH --fuse -o smaller.json",
    "tile": "mobilenet.json --rows 4 -o tiled.json",
    "zero-copy": "GRAPH --alignment 16 -o joined.json",
    "convert": "GRAPH --to dot -o g.dot",
    "list": "--json",
    "export": "GRAPH --budget 0.8 -o FOLDER",
    "complexity": "GRAPH --budget 0.8",
    "bench run": "EXPERIMENT.toml",
    "bench export": "EXPERIMENT.sqlite -o EXPERIMENT.csv",
    "bench report": "EXPERIMENT.sqlite -o FOLDER",
    "bench package": "EXPERIMENT.toml --instances 5 -o FOLDER",
    "bench best-known": "EXPERIMENT.toml --table TABLE.csv --time-limit 60",
    "install-solver": "--folder FOLDER",
    "compile": "",
}
"""The example that ends the help of each command, by its words; a test runs them all."""


SUMMARIES = {
    "solve": "Find the shortest schedule within a memory budget",
    "frontier": "Find the least duration for many budgets",
    "order": "Find an order of least peak memory, without recomputation",
    "compare": "Compare all formulations and strategies on some graphs",
    "allocate": "Give buffers offsets in one small arena",
    "run": "Train a network with a plan and without, and compare",
    "deploy": "Write a plan as a file that a runtime executes",
    "deploy c-header": "Write a plan as a C header",
    "deploy onnx": "Rewrite an ONNX model to follow a schedule",
    "deploy c": "Write an int8 TFLite model as C",
    "deploy tflite": "Rewrite a TFLite model to follow a plan",
    "run torch": "Train a PyTorch module with a plan and without",
    "validate": "Check a schedule, whoever made it",
    "check-certificate": "Check a certificate, without any solver",
    "plot": "Draw a schedule",
    "info": "Print sizes and limits of a graph",
    "generate": "Make a random graph or the graph of a network",
    "generate chain": "Make a chain of layers",
    "generate layered": "Make a random layered graph, as in the paper",
    "generate network": "Make the graph of a published network by name",
    "generate random-dag": "Make a random acyclic graph",
    "generate u-shaped": "Make a chain with skips, as in a U-Net",
    "import": "Make a graph from a network or another graph file",
    "import dot": "Import a graph in Graphviz's DOT",
    "import graphml": "Import a graph in GraphML",
    "import onnx": "Import an ONNX model",
    "import tflite": "Import a TFLite model",
    "import torch": "Import a PyTorch module",
    "reduce": "Merge operations that can run in place",
    "tile": "Cut the outputs of layers into parts",
    "zero-copy": "Take out concatenations that need copy nothing",
    "convert": "Write a graph in another format",
    "list": "List formulations, strategies and solvers",
    "export": "Write a graph and a budget as files for MiniZinc",
    "complexity": "Count variables and constraints of each formulation",
    "bench": "Run experiments and report on them",
    "bench best-known": "Make or improve a table of best-known values",
    "bench export": "Write results as tables",
    "bench package": "Make a submission to the MiniZinc Challenge",
    "bench report": "Write a report of results, with tables and plots",
    "bench run": "Run an experiment, or the rest of it",
    "install-solver": "Make our solvers known to MiniZinc",
    "compile": "Compile the local searches now",
}
"""The line on each command in the lists of commands."""


# --- The commands, each imported when it is called ------------------------------------------------------------


SECTIONS: dict[str, dict[str, str]] = {
    "Solve": {
        "solve": "solve:solve",
        "frontier": "frontier:frontier",
        "order": "order:order",
        "compare": "frontier:compare",
        "allocate": "allocate:allocate",
    },
    "Train": {
        "run": "run:run_",
    },
    "Deploy": {
        "deploy": "deploy:deploy",
    },
    "Judge and draw": {
        "validate": "validate:validate",
        "check-certificate": "validate:check_certificate",
        "plot": "export:plot",
    },
    "Graphs": {
        "info": "info:info",
        "generate": "graphs:generate",
        "import": "imports:import_",
        "reduce": "graphs:reduce",
        "tile": "tile:tile",
        "zero-copy": "zero_copy:zero_copy",
        "convert": "graphs:convert",
    },
    "Models, solvers, experiments": {
        "list": "info:list_methods",
        "export": "export:export",
        "complexity": "info:complexity",
        "bench": "bench:bench",
        "install-solver": "install:install_solver",
        "compile": "install:compile_searches",
    },
}
"""Module and function of each command, by section."""


class Named(cloup.Command):
    """A command that is not imported yet."""

    def __init__(self, name: str, home: str) -> None:
        super().__init__(name, short_help=SUMMARIES[name])
        self.home = home

    def load(self) -> click.Command:
        """Import it, end its help, or that of its commands, with examples, and give each its summary."""
        module, _, function = self.home.partition(":")
        command: click.Command = getattr(import_module(f"moccasin_mzn.cli.{module}"), function)
        for words, summary in SUMMARIES.items():
            first, _, rest = words.partition(" ")
            if first == self.name:
                one = find_command(command, rest)
                one.short_help = summary
                if words in EXAMPLES:
                    one.epilog = f"\b\nExample:\n  {PROGRAM} {words} {EXAMPLES[words]}".rstrip()
        return command


def find_command(command: click.Command, words: str) -> click.Command:
    """Return a command of a group by its words; without words the command itself."""
    for word in words.split():
        assert isinstance(command, click.Group)
        command = command.commands[word]
    return command


class Commands(UserDict[str, click.Command]):
    """Commands by name, imported at their first use: the help of the whole program needs none of them."""

    def __getitem__(self, name: str) -> click.Command:
        command = self.data[name]
        if isinstance(command, Named):
            command = self[name] = command.load()
        return command


# --- The entry point ------------------------------------------------------------------------------------------


LEAST_ADDRESS_SPACE = 200 * 2**20
"""The least address space, in bytes, with which the program starts."""


@group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="moccasin_mzn", message="%(version)s")
def main() -> None:
    """Decide which tensors of a computation graph to drop and recompute, so that peak memory stays within a budget."""


main.commands = Commands()
for title, entries in SECTIONS.items():
    main.add_section(cloup.Section(title, [Named(name, home) for name, home in entries.items()]))
_PAGES = (Page.QUICK_START, Page.GUIDE, Page.TRAINING, Page.INFEASIBLE)
main.epilog = "\b\nRead on:\n" + "\n".join(f"  {page.address:<19}  {page.heading}" for page in _PAGES)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status; every refusal is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that the terminal cannot show is no reason to fail
    try:
        require_address_space("this program", LEAST_ADDRESS_SPACE)
        with notes_on_stderr():
            return main.main(args=arguments, prog_name=PROGRAM, standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return FAILED
    except click.ClickException as error:
        refusal = InputError(error.format_message())
    except InputError as error:
        refusal = error
    except click.Abort:
        refusal = InputError("interrupted")
    except Exception as error:
        lack = out_of_memory(error)
        if lack is not None:
            refusal = lack
        elif isinstance(error, OSError):  # of stdout: whoever opens a file reports its errors
            refusal = InputError(f"{error.filename or 'stdout'}: {error.strerror or error}")
        else:
            raise
    _report(refusal, sys.argv[1:] if arguments is None else arguments)
    return FAILED


def _report(refusal: InputError, arguments: list[str]) -> None:
    """Print a refusal in one line on stderr, and as an object on stdout if that is for JSON."""
    document = refusal.as_dict()
    if not {"--json", "--json-stream"}.isdisjoint(arguments):
        click.echo(json.dumps(document))
    click.echo(f"error: {document['message']}", err=True)
