"""The shell blocks of the pages that need PyTorch."""

from __future__ import annotations

import pytest
from page_runs import Folder, pages_of, run_page


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", pages_of("torch"))
def test_blocks_run(command, monkeypatch, tmp_path, name):
    monkeypatch.syspath_prepend(str(tmp_path))  # where `python -m` finds my.module
    run_page(Folder.of(tmp_path, command, monkeypatch), name, "torch")
