"""The commands `deploy ...`: schedules as models or code that follow them."""

from __future__ import annotations

from moccasin_mzn.cli.deploy_onnx import onnx
from moccasin_mzn.cli.strict import group


@group()
def deploy() -> None:
    """Make of a schedule a model or code that follows it."""


for command in (onnx,):
    deploy.add_command(command)
