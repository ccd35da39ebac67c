"""A TFLite model of floating-point numbers as one of int8, by ai-edge-quantizer, calibrated with random inputs.

pip install ai-edge-quantizer
python scripts/quantize_tflite.py MODEL.tflite INT8.tflite [--seed 0]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SAMPLES = 4
"""Inputs of the calibration, from 0 to 1."""


def quantized(path: Path, seed: int) -> bytes:
    """The file of the model of int8, with a scale for each channel of weights."""
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    random = np.random.default_rng(seed)
    made = Interpreter(str(path))
    (key,) = made.get_signature_list()
    inputs = made.get_signature_runner(key).get_input_details()
    samples = [
        {name: random.uniform(0, 1, about["shape"]).astype(np.float32) for name, about in inputs.items()}
        for _ in range(SAMPLES)
    ]
    tool = quantizer.Quantizer(str(path), recipe.static_wi8_ai8())
    return bytes(tool.quantize(tool.calibrate({key: samples})).quantized_model)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    arguments.output.write_bytes(quantized(arguments.model, arguments.seed))


if __name__ == "__main__":
    main()
