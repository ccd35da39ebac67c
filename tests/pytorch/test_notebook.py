"""The notebook about training."""

from __future__ import annotations

import pytest
from documents import ROOT
from notebooks import run_notebook


@pytest.mark.full
def test_pytorch_notebook_cells_run(monkeypatch, tmp_path):
    run_notebook(ROOT / "docs" / "notebooks" / "pytorch.ipynb", tmp_path, monkeypatch)
