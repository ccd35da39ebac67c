"""The comparison of methods, on networks so small that figures mean nothing."""

from __future__ import annotations

import argparse
from dataclasses import replace

import bench_execution
import pytest
import torch
from execution_nets import NETS

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")


def options(**changed):
    return argparse.Namespace(**{"small": True, "aot": "", "budgets": "", "steps": 2, "time_limit": 20.0, **changed})


@pytest.mark.parametrize("name", NETS)
def test_checkpoints_are_equal_to_eager(name):
    eager, checkpointed = bench_execution.measured(name, NETS[name], options())
    assert (eager.method, checkpointed.method) == ("eager", "checkpoint")
    assert eager.equal and checkpointed.equal
    for run in (eager, checkpointed):
        assert 0 < run.storage <= run.allocator
        assert len(run.times) == 2
    assert checkpointed.state is not eager.state


def test_the_table_and_the_picture_have_every_run(tmp_path):
    runs = [run for name in ("mlp", "unet") for run in bench_execution.measured(name, NETS[name], options())]
    table = bench_execution.table_of(runs)
    assert table.row_count == len(runs) == 4
    cells = list(zip(*(column.cells for column in table.columns), strict=True))
    assert [row[:2] for row in cells[:2]] == [("mlp", "eager"), ("mlp", "checkpoint")]
    assert cells[0][-2:] == ("0.0", "yes")
    bench_execution.draw(runs, str(tmp_path / "all.svg"))
    picture = (tmp_path / "all.svg").read_text()
    assert picture.count("<svg") == 1


def test_no_schedule_is_a_row_without_figures():
    eager = bench_execution.Run("mlp", "eager", "", lambda: None, equal=True, times=[0.5, 0.25, 0.75])
    none = bench_execution.Run("mlp", "plan", "0.1", None)
    table = bench_execution.table_of([eager, none])
    cells = list(zip(*(column.cells for column in table.columns), strict=True))
    assert cells[1] == ("mlp", "plan", "0.1", "-", "-", "-", "-", "-", "-", "no schedule")
    assert cells[0][7] == "500.00"


def test_processes_are_put_together():
    one = bench_execution.Run("mlp", "plan", "0.5", None, increase=0.1, allocator=7, equal=True, times=[1.0], over=8.0)
    other = replace(one, increase=0.3, allocator=9, times=[3.0], over=10.0)
    none = bench_execution.Run("mlp", "plan", "0.5", None)
    both = bench_execution.together([one, none, other])
    assert (both.allocator, both.increase, both.over, both.seconds, both.equal) == (9, 0.2, 9, 2, True)
    assert not bench_execution.together([one, replace(other, equal=False)]).equal
    assert bench_execution.together([none, none]).equal is None


def test_other_numbers_are_not_equal():
    one = {"loss": torch.tensor(1.0), "w": torch.ones(3)}
    assert bench_execution.same(one, {name: value.clone() for name, value in one.items()})
    assert not bench_execution.same(one, {**one, "w": torch.ones(3) + 1e-7})
    assert not bench_execution.same(one, {"loss": one["loss"]})


@pytest.mark.full
def test_compiled_networks_keep_to_their_budgets():
    runs = bench_execution.measured("gpt", NETS["gpt"], options(aot="1.0", budgets="0.85,0.01"))
    held, without = [run for run in runs if run.method == "aot_eager plan"]
    packed = next(run for run in runs if run.method == "aot_eager knapsack")
    (usual,) = [run for run in runs if run.method == "aot_eager"]
    assert held.equal and usual.equal
    assert held.allocator == held.predicted < 0.85 * usual.allocator
    assert without.call is None
    assert packed.equal and packed.allocator < 0.85 * usual.allocator
