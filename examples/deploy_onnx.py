"""An ONNX model whose operators follow a schedule, with the same outputs in less memory.

$ python examples/deploy_onnx.py
...: 6 operators, 1 recomputation: 7 in the file, planned peak 640.00 KiB instead of 768.00 KiB
outputs are equal, bit for bit
...
Relu runs 2 times
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model() -> onnx.ModelProto:
    """A chain of matrix products that widens and narrows, with a connection past it."""
    widths = [64, 64, 256, 64, 64]
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(size=pair).astype(np.float32) / 16, f"w{i}")
        for i, pair in enumerate(zip(widths, widths[1:], strict=False))
    ]
    operators = [helper.make_node("Relu", ["input"], ["x0"])]
    operators += [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(len(weights))]
    operators += [helper.make_node("Add", ["x0", f"x{len(weights)}"], ["output"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [512, 64]) for name in ("input", "output")]
    graph = helper.make_graph(operators, "bottleneck", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main() -> None:
    with TemporaryDirectory() as folder:
        old, new = Path(folder) / "model.onnx", Path(folder) / "smaller.onnx"
        onnx.save(model(), old)
        command = [
            sys.executable,
            "-m",
            "moccasin_mzn",
            "deploy",
            "onnx",
            old,
            "-o",
            new,
            "--budget",
            "0.85",
            "--check",
        ]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
        print("Relu runs", sum(node.op_type == "Relu" for node in onnx.load(new).graph.node), "times")


if __name__ == "__main__":
    main()
