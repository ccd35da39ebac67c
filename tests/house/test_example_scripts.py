"""The scripts of `examples/` run and print what their first lines show, where "..." stands for anything."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"train_pytorch.py": "torch", "deploy_onnx.py": "onnxruntime"}


def shown(path: Path) -> str:
    """What the docstring shows below the command, as a pattern."""
    lines = ast.get_docstring(ast.parse(path.read_text()), clean=True).splitlines()
    text = "\n".join(lines[lines.index(f"$ python examples/{path.name}") + 1 :])
    return ".*".join(re.escape(piece) for piece in text.strip().split("..."))


@pytest.mark.few(1)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_prints_what_it_shows(path, tmp_path):
    if path.name in NEEDS and find_spec(NEEDS[path.name]) is None:
        pytest.skip(f"there is no {NEEDS[path.name]}")
    ended = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(shown(path), ended.stdout.strip(), re.DOTALL), ended.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_fits_a_screen_and_uses_what_is_public(path):
    text = path.read_text()
    assert 20 <= len(text.splitlines()) <= 60
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module)
    assert {name for name in modules if name.startswith("moccasin_mzn")} <= {"moccasin_mzn", "moccasin_mzn.pytorch"}


def test_examples_are_listed_once():
    listed = re.findall(r"\]\((\w+\.py)\)", (ROOT / "examples" / "README.md").read_text())
    assert sorted(listed) == [path.name for path in EXAMPLES] and len(EXAMPLES) >= 10
