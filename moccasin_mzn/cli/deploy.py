"""The commands `deploy ...`: plans for runtimes."""

from __future__ import annotations

from moccasin_mzn.cli.deploy_c_header import c_header
from moccasin_mzn.cli.deploy_onnx import onnx
from moccasin_mzn.cli.deploy_tflite import tflite
from moccasin_mzn.cli.strict import group


@group()
def deploy() -> None:
    """Turn a plan into what a runtime carries out."""


for command in (c_header, onnx, tflite):
    deploy.add_command(command)
