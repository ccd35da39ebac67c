"""The command line. Exit status 0: a valid schedule; 1: none; 2: bad usage or input, with one line that explains it."""

from __future__ import annotations

import json
import sys
from collections import UserDict
from importlib import import_module

import click
import cloup

from moccasin_mzn.cli.options import group
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError, out_of_memory, require_address_space
from moccasin_mzn.terminal import FAILED

EXAMPLES = {
    "solve": "GRAPH --budget 0.8 --time-limit 60 --output schedule.json --plot schedule.svg",
    "frontier": "GRAPH --points 10 --time-limit 60 --plot front.svg",
    "order": "GRAPH --output order.json",
    "compare": "GRAPH --budget 0.9 --budget 0.8 --only 'chen-*' --only dtr",
    "allocate": "BUFFERS.csv --alignment 64 --output OFFSETS.csv",
    "run torch": "my.module:make --input 8x3x224x224 --budget 0.5",
    "deploy c-header": "plan.json -o plan.h",
    "deploy onnx": "MODEL.onnx MODEL.plan.json -o NEW.onnx --check",
    "deploy tflite": "model.tflite --budget 0.8 -o new.tflite",
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
    "convert": "GRAPH --to dot -o g.dot",
    "list": "--json",
    "export": "GRAPH --budget 0.8 -o FOLDER",
    "complexity": "GRAPH --budget 0.8",
    "bench run": "EXPERIMENT.toml",
    "bench export": "EXPERIMENT.sqlite -o EXPERIMENT.csv",
    "bench report": "EXPERIMENT.sqlite --output FOLDER",
    "bench package": "EXPERIMENT.toml --instances 5 -o FOLDER",
    "bench best-known": "EXPERIMENT.toml --table TABLE.csv --time-limit 60",
    "install-solver": "--folder FOLDER",
    "compile": "",
}
"""The example that ends the help of each command, by its words; a test runs them all."""


# --- The commands, each imported when it is called ------------------------------------------------------------


SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Solve": {
        "solve": ("solve:solve", "Find the shortest schedule of GRAPH within a memory budget, and prove it."),
        "frontier": (
            "frontier:frontier",
            "Find the least duration of GRAPH for budgets from the least feasible one to the peak of the input order.",
        ),
        "order": (
            "memory:order",
            "Find an order of GRAPH of least peak memory that computes every node once, and a bound on all such "
            "orders.",
        ),
        "compare": (
            "frontier:compare",
            "Run all formulations and strategies on each GRAPH and budget, and print their figures side by side.",
        ),
        "allocate": (
            "memory:allocate",
            "Give the buffers of FILE, a CSV as minimalloc reads it, offsets in a small arena.",
        ),
    },
    "Train": {
        "run": ("run:run_", "Train a network for a few steps with a plan and without, and compare."),
    },
    "Deploy": {
        "deploy": ("deploy:deploy", "Turn a plan into what a runtime executes."),
    },
    "Judge and draw": {
        "validate": (
            "validate:validate",
            "Judge SCHEDULE of GRAPH, wherever it was made: exit status 0 if it is valid, else 1 and the first "
            "violation.",
        ),
        "check-certificate": (
            "validate:check_certificate",
            "Check CERTIFICATE, made by `solve --certificate` for GRAPH: print what it proves, or what is wrong with "
            "it.",
        ),
        "plot": ("export:plot", "Draw SCHEDULE of GRAPH: retention intervals, and memory before and after."),
    },
    "Graphs": {
        "info": (
            "info:info",
            "Print the size of GRAPH, what its input order needs, and below which budgets nothing is feasible.",
        ),
        "generate": ("graphs:generate", "Make a graph: a random one of a family, or a published network."),
        "import": ("imports:import_", "Make a graph of a network or a graph of another program."),
        "reduce": ("graphs:reduce", "Merge operations of GRAPH that can run in place into their producers."),
        "convert": ("graphs:convert", "Write GRAPH in another format; everything in it survives."),
    },
    "Models, solvers, experiments": {
        "list": (
            "info:list_methods",
            "List formulations, strategies and solvers, and what each guarantees; without MiniZinc there are no "
            "solvers.",
        ),
        "export": (
            "export:export",
            "Write GRAPH and a budget as files that plain MiniZinc solves, and print the command for it.",
        ),
        "complexity": (
            "info:complexity",
            "Count variables and constraints of each formulation of GRAPH after flattening, with their order of "
            "growth.",
        ),
        "bench": (
            "bench:bench",
            "Run an experiment, and export, report or package its results; keep a table of best-known values.",
        ),
        "install-solver": (
            "install:install_solver",
            "Make the solvers of this package known to MiniZinc and its IDE: `minizinc --solver cp-sat model.mzn "
            "data.dzn`.",
        ),
        "compile": (
            "install:compile_searches",
            "Compile the searches and keep them on disk; otherwise the first run that needs one compiles it.",
        ),
    },
}
"""Module and function of each command, and the sentence that its own help begins with, by section."""


class Named(cloup.Command):
    """A command that is not imported yet."""

    def __init__(self, name: str, home: str, sentence: str) -> None:
        super().__init__(name, short_help=sentence)
        self.home = home

    def load(self) -> click.Command:
        """Import it, and end its help, or that of its commands, with examples."""
        module, _, function = self.home.partition(":")
        command: click.Command = getattr(import_module(f"moccasin_mzn.cli.{module}"), function)
        for words, arguments in EXAMPLES.items():
            first, *rest = words.split()
            if first == self.name:
                one = command
                for word in rest:
                    assert isinstance(one, click.Group)
                    one = one.commands[word]
                one.epilog = f"\b\nExample:\n  moccasin-mzn {words} {arguments}".rstrip()
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
    main.add_section(cloup.Section(title, [Named(name, *entry) for name, entry in entries.items()]))
_PAGES = (Page.QUICK_START, Page.GUIDE, Page.TRAINING, Page.INFEASIBLE)
main.epilog = "\b\nRead on:\n" + "\n".join(f"  {page.address:<19}  {page.heading}" for page in _PAGES)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status; every refusal is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that the terminal cannot show is no reason to fail
    try:
        require_address_space("this program", LEAST_ADDRESS_SPACE)
        return main.main(args=arguments, standalone_mode=False) or 0
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
