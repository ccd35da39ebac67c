"""An example for each command, which its help ends with; a test runs them."""

from __future__ import annotations

import click

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
"""By the words of a command, what follows them."""


def add_examples(group: click.Group) -> None:
    """End the help of the commands of a group with their examples."""
    for words, arguments in EXAMPLES.items():
        command: click.Command = group
        for word in words.split():
            assert isinstance(command, click.Group)
            command = command.commands[word]
        command.epilog = f"\b\nExample:\n  moccasin-mzn {words} {arguments}".rstrip()
