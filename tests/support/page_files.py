"""What stands for a reader's own files in the commands of the pages: small ones, of the same kinds."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from documents import PAGES, ROOT, page

_GRAPH = "python -m moccasin_mzn generate u-shaped --nodes 12 --seed 2 -o "
_NETWORK = '''
import torch
from torch import nn


class Scores(nn.Module):
    """Images or rows, some layers, and scores of ten classes."""

    def __init__(self):
        super().__init__()
        self.pixel, self.row = nn.Linear(3, 8), nn.Linear(64, 8)
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(12)))
        self.scores = nn.Linear(8, 10)

    def forward(self, x):
        if x.dim() == 2:
            return self.scores(self.layers(self.row(x)))
        pixels = nn.functional.adaptive_avg_pool2d(x, 28).flatten(2).transpose(1, 2)
        return self.scores(self.layers(self.pixel(pixels)).mean(1))


def make():
    return Scores()
'''
_EXPERIMENT = """
name = "EXPERIMENT"
budgets = ["0.8"]
time_limit = 5
[[graphs]]
path = "GRAPH"
[[methods]]
search = "off"
[[methods]]
strategy = "dtr"
"""


def _onnx_model(batch: int | str = 1) -> bytes:
    """Convolutions that widen and narrow, with a connection past them: at 0.8 its first output is computed again."""
    from onnx import TensorProto, helper

    channels = (4, 8, 12, 12, 8)
    nodes, weights = [], []
    for at, (before, after) in enumerate(zip(channels, channels[1:], strict=False)):
        weights.append(helper.make_tensor(f"w{at}", TensorProto.FLOAT, [after, before, 1, 1], [0.1] * (after * before)))
        nodes.append(helper.make_node("Conv", [f"x{at}", f"w{at}"], [f"x{at + 1}"], name=f"conv{at}"))
    nodes.append(helper.make_node("Add", ["x1", "x4"], ["sum"], name="sum"))
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, count, 16, 16])
        for name, count in (("x0", 4), ("sum", 8))
    ]
    graph = helper.make_graph(nodes, "past", infos[:1], infos[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return model.SerializeToString()


def _tflite_model() -> bytes:
    from tflite_models import skipping

    return skipping()


def _int8_model() -> bytes:
    from int8_networks import resnet8

    return resnet8()


def _of_pages() -> dict[str, str]:
    """What pages have in blocks that begin with the name of a file, in a comment."""
    blocks = (block for name in PAGES for block in page(name).blocks if block.language in ("minizinc", "toml"))
    named = ((re.match(r"[%#] (\S+\.\w+):", block.text), block.text) for block in blocks)
    return {found[1]: text for found, text in named if found}


FILES: dict[str, str | Callable[[], bytes]] = {
    "GRAPH": f"{_GRAPH}GRAPH",
    "my.json": f"{_GRAPH}my.json",
    "mobilenet.json": "python -m moccasin_mzn generate network mobilenet -o mobilenet.json",
    "FILE": f"{_GRAPH}G\npython -m moccasin_mzn convert G --to graphml -o FILE",
    "my.module": _NETWORK,
    "SCHEDULE": f"{_GRAPH}G\npython -m moccasin_mzn solve G --budget 0.8 --output SCHEDULE",
    "CERTIFICATE": f"{_GRAPH}G\npython -m moccasin_mzn solve G --budget 0.8 --certificate CERTIFICATE",
    "FILE.dot": "python -m moccasin_mzn convert GRAPH --to dot -o FILE.dot",
    "MODEL.plan.json": "python -m moccasin_mzn import onnx MODEL.onnx -o M\n"
    "python -m moccasin_mzn solve M --budget 0.8 --output MODEL.plan.json",
    "plan.json": f"{_GRAPH}G\npython -m moccasin_mzn solve G --budget 0.8 --addresses --output plan.json",
    "BUFFERS.csv": "id,lower,upper,size\n1,0,3,4\n2,3,9,4\n3,0,9,4\n4,9,21,4\n5,0,21,8\n",
    "EXPERIMENT.toml": _EXPERIMENT,
    "EXPERIMENT.sqlite": "python -m moccasin_mzn bench run EXPERIMENT.toml",
    "MODEL.onnx": _onnx_model,
    "model.onnx": partial(_onnx_model, "batch"),
    "model.tflite": _tflite_model,
    "resnet8.tflite": _int8_model,
    "my.mzn": (ROOT / "models" / "staged.mzn").read_text(encoding="utf-8"),
    "model.mzn": 'include "models/staged.mzn";\n',
    "data.dzn": page("models/README.md").blocks[2].text,
    **_of_pages(),
}
"""By the name that a command has: the text, the commands that make it, or the bytes."""
