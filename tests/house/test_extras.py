"""Hints of what to install name a path that pip takes; the package is on no index."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from moccasin_mzn.base import extras
from moccasin_mzn.base.errors import missing

ROOT = Path(__file__).resolve().parents[2]


def in_folder(monkeypatch, folder: Path) -> None:
    """Have the package there, as far as hints go."""
    monkeypatch.setattr(extras, "__file__", str(folder / "moccasin_mzn" / "base" / "extras.py"))


def test_extras_in_a_checkout_name_the_checkout(monkeypatch, tmp_path):
    assert extras.install_command("onnx") == shlex.join(["pip", "install", "-e", f"{ROOT}[onnx]"])
    told = f"plotly is missing: pip install -e '{ROOT}[plot]' (see Install: docs/user-guide.md#install)"
    assert str(missing("plotly", "plot")) == told
    checkout = tmp_path / "it's here"
    checkout.mkdir()
    (checkout / "pyproject.toml").touch()
    in_folder(monkeypatch, checkout)
    assert shlex.split(extras.install_command("onnx,profile"))[-1] == f"{checkout}[onnx,profile]"


def test_extras_installed_from_nowhere_name_a_future_checkout(monkeypatch, tmp_path):
    in_folder(monkeypatch, tmp_path)

    def nothing(name):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "distribution", nothing)
    assert extras.install_command("torch") == "pip install -e '.[torch]' in a checkout of moccasin_mzn"


@pytest.mark.slow
def test_a_wheel_is_named_as_long_as_it_is_there(tmp_path):
    wheels, site = tmp_path / "some wheels", tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT], check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True, capture_output=True)

    def told() -> str:
        code = f"import sys; sys.path.insert(0, {str(site)!r})\n"
        code += "from moccasin_mzn.base.extras import install_command; print(install_command('onnx'))"
        return subprocess.check_output([sys.executable, "-c", code], text=True, cwd=tmp_path).strip()

    assert told() == f"pip install '{wheel}[onnx]'"
    again = [*pip, *shlex.split(told())[1:], "--dry-run", "--no-deps", "--no-index"]
    assert subprocess.run(again, capture_output=True, check=False).returncode == 0
    wheel.rename(tmp_path / "elsewhere.whl")
    assert told() == "pip install -e '.[onnx]' in a checkout of moccasin_mzn"
