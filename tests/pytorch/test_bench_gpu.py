"""The table of `scripts/bench_gpu.py`, on a CPU and on networks so small that figures mean nothing."""

from __future__ import annotations

import argparse

import bench_gpu
import pytest

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")


def options(**changed):
    return argparse.Namespace(
        **{"small": True, "device": "cpu", "budgets": "0.8", "time_limit": 8.0, "turns": 1, **changed}
    )


@pytest.mark.full
def test_every_method_has_a_row_and_is_equal_to_eager():
    rows = [*bench_gpu.rows("llama-1b", options(), lambda: False)]
    assert [row[1:3] for row in rows] == [
        ("checkpoints", "every block"), ("plan", "of checkpoints"), ("plan", "0.8"), ("torch.compile", "1.0"),
        ("torch.compile", "0.5"),
    ]  # fmt: skip
    assert all(row[-1] == "yes" for row in rows)
    assert all(row[3] == row[4] for row in rows if row[1] == "plan")  # predicted and measured


def test_no_row_is_begun_when_time_is_over(capsys):
    assert [*bench_gpu.rows("mlp", options(), lambda: True)] == []
    assert "mlp: no time is left" in capsys.readouterr().err


@pytest.mark.full
def test_an_impossible_budget_is_a_row_without_figures(capsys):
    (row,) = bench_gpu.rows("mlp", options(budgets="0.1"), lambda: False)
    assert row[-1] == "no plan" and row[3:8] == 5 * ("-",)
    assert "mlp 0.1: budget" in capsys.readouterr().err
