"""Plans in the loops of libraries: 20 steps with last batches of another size give the same weights as without."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys

import pytest
import torch
from documents import page
from step_runs import same
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import PlanError, Plans

QUICK = {"budget": 0.7, "search": "only", "time_limit": 30, "until_gap": 0.9, "seed": 0, "threads": 1}
STEPS = 20


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        blocks = [nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Dropout(0.2), nn.Linear(24, 12)) for _ in range(3)]
        self.blocks, self.norm, self.head = nn.ModuleList(blocks), nn.BatchNorm1d(12), nn.Linear(12, 4)

    def forward(self, x, scale=1.0):
        for block in self.blocks:
            x = x + block(x)
        return self.head(self.norm(x)) * scale


def batches():
    """Four whole batches and a smaller one."""
    chance = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(306, 12, generator=chance), torch.randint(4, (306,), generator=chance))
    return DataLoader(data, batch_size=64)


def check(planned, plain, plans):
    """The same weights and buffers, by two plans that recompute something, and nothing is left in the network."""
    assert same([*planned.state_dict().values()], [*plain.state_dict().values()])
    assert [each.repeats for each in plans.plans] == [True, True]
    assert len({each.traced.forms for each in plans.plans}) == 2
    assert "forward" not in vars(planned)


def own_loop(model, optimizer, loader, backward=lambda loss: loss.backward()):
    torch.manual_seed(5)
    done = 0
    while done < STEPS:
        for x, y in loader:
            optimizer.zero_grad()
            backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            done += 1


def test_a_loop_of_ones_own():
    planned, plain = Classifier(), Classifier()
    plans = Plans(planned, **QUICK).install()
    for model in (planned, plain):
        own_loop(model, torch.optim.Adam(model.parameters()), batches())
    with torch.no_grad():
        assert planned.eval()(torch.randn(3, 12)).shape == (3, 4)
    plans.remove()
    check(planned, plain, plans)


def test_a_planned_module_in_a_loop_of_ones_own():
    planned, plain = Classifier(), Classifier()
    plans = Plans(planned, **QUICK)
    own_loop(plans.module(), torch.optim.Adam(planned.parameters()), batches())
    own_loop(plain, torch.optim.Adam(plain.parameters()), batches())
    check(planned, plain, plans)


def test_an_unknown_option_is_refused_at_once():
    with pytest.raises(TypeError, match="Plans.* unexpected keyword argument 'time_limits', did you mean 'time_limit'"):
        Plans(Classifier(), budget=0.7, time_limits=5)
    with pytest.raises(InputError, match="expected a torch.nn.Module"):
        Plans(Classifier, budget=0.7)
    with pytest.raises(PlanError, match="the loss is part of the plan"):
        Plans(Classifier(), budget=0.7, loss=nn.functional.cross_entropy).install()


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_accelerate(precision):
    accelerate = pytest.importorskip("accelerate")
    models = Classifier(), Classifier()
    plans = []
    for model in models:
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision)
        parts = accelerator.prepare(model, torch.optim.Adam(model.parameters()), batches())
        if not plans:
            plans.append(Plans(accelerator.unwrap_model(parts[0]), **QUICK).install())
        own_loop(*parts, accelerator.backward)
    plans[0].remove()
    for model in models:
        vars(model).pop("forward", None)  # of the library
    check(*models, plans[0])


def lightning_module(whole):
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Classifier()

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, _):
            x, y = batch
            return nn.functional.cross_entropy(self(x) if whole else self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    return Module()


def lightning_training(callbacks, whole, tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    module = lightning_module(whole)
    torch.manual_seed(5)
    trainer = lightning.Trainer(
        max_steps=STEPS, accelerator="cpu", devices=1, callbacks=callbacks, logger=False, enable_checkpointing=True,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, batches())
    return module.net


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("whole", [True, False])
def test_lightning(whole, tmp_path):
    pytest.importorskip("lightning.pytorch")
    from moccasin_mzn.pytorch.integrations import LightningCallback

    callback = LightningCallback(**QUICK)
    check(lightning_training([callback], whole, tmp_path), lightning_training([], whole, tmp_path), callback.plans)
    assert pickle.loads(pickle.dumps(LightningCallback)) is LightningCallback


@pytest.mark.filterwarnings("ignore")
def test_lightning_refuses_a_network_that_is_not_called(tmp_path):
    pytest.importorskip("lightning.pytorch")
    from moccasin_mzn.pytorch.integrations import LightningCallback

    callback = LightningCallback(submodule="net.head", **{**QUICK, "budget": 1.0})
    lightning_training([callback], True, tmp_path)  # a part of the network is planned too
    assert callback.plans.plans
    callback = LightningCallback(submodule="net.blocks", **QUICK)
    with pytest.raises(PlanError, match="training_step does not call the network that is planned: name it"):
        lightning_training([callback], True, tmp_path)


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 39

    def __getitem__(self, at):
        tokens = torch.randint(50, (16,), generator=torch.Generator().manual_seed(at))
        return {"input_ids": tokens, "labels": tokens}


def trainer_parts(folder, **options):
    """A network, arguments and data."""
    from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=8, max_steps=STEPS, report_to=[], use_cpu=True, seed=3,
        disable_tqdm=True, logging_steps=5, save_steps=10, **options,
    )  # fmt: skip
    return {"model": model, "args": arguments, "train_dataset": Sentences()}


def trainer_training(callbacks, folder, **options):
    from transformers import Trainer

    parts = trainer_parts(folder, **options)
    Trainer(**parts, callbacks=callbacks).train()
    return parts["model"]


@pytest.mark.parametrize("options", [{}, {"bf16": True}, {"gradient_accumulation_steps": 2}], ids=["", "bf16", "two"])
def test_the_trainer_of_transformers(options, tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from moccasin_mzn.pytorch.integrations import TransformersCallback

    callback = TransformersCallback(**QUICK)
    planned, plain = (trainer_training(each, tmp_path, **options) for each in ([callback], []))
    check(planned, plain, callback.plans)


BLOCKS = {block.mark: block for block in page("docs/training.md").blocks if block.language == "python" and block.mark}


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", [*BLOCKS])
def test_what_the_page_shows_of_a_library_runs(library, monkeypatch, tmp_path):
    pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    model = Classifier()
    names = {"model": model, "optimizer": torch.optim.Adam(model.parameters()), "loader": batches()}
    if library == "accelerate":
        names["accelerator"] = importlib.import_module(library).Accelerator(cpu=True)
    elif library == "transformers":
        parts = trainer_parts(tmp_path)
        names |= {"model": parts["model"], "arguments": parts["args"], "data": parts["train_dataset"]}
    else:
        names["module"] = lightning_module(whole=True)
    exec(compile(BLOCKS[library].text, "docs/training.md", "exec"), names)
    if library == "accelerate":
        own_loop(names["model"], names["optimizer"], names["loader"], names["accelerator"].backward)
    plans = names["plans"] if library == "accelerate" else names["callback"].plans
    assert len(plans.plans) == 2


TWO_PROCESSES = """
import os, sys, torch
from torch import distributed, nn
from test_integrations import QUICK, Classifier, Plans, batches, own_loop, same

def train(rank, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    models = Classifier(), Classifier()
    plans = Plans(models[0], **QUICK).install()
    for model in models:
        wrapped = nn.parallel.DistributedDataParallel(model)
        loader = [(x[rank::2], y[rank::2]) for x, y in batches()]
        own_loop(wrapped, torch.optim.Adam(wrapped.parameters()), loader)
    plans.remove()
    equal = same(*([*model.state_dict().values()] for model in models))
    with open(f"{folder}/{rank}.txt", "w") as file:
        print(equal, [each.repeats for each in plans.plans], file=file)

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (sys.argv[1],), nprocs=2)
"""


@pytest.mark.full
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no processes that train together")
def test_two_processes_train_together(tmp_path):
    (tmp_path / "train_two.py").write_text(TWO_PROCESSES)
    path = os.pathsep.join([*filter(None, sys.path), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", tmp_path / "train_two.py", tmp_path], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path}, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"{rank}.txt").read_text() for rank in range(2)] == ["True [True, True]\n"] * 2


SHARDED = """
import os, sys, torch
from torch import distributed
from torch.distributed.fsdp import fully_shard
from test_integrations import Classifier, PlanError, Plans

distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
model = fully_shard(Classifier(), mesh=distributed.init_device_mesh("cpu", (1,)))
try:
    Plans(model, budget=0.7).module()(torch.randn(8, 12))
except PlanError as error:
    print(str(error).partition(" (see")[0])
try:
    Plans(torch.nn.parallel.DistributedDataParallel(Classifier()), budget=0.7).module()(torch.randn(8, 12))
except PlanError as error:
    print(str(error).partition(" (see")[0])
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no processes that train together")
def test_wrapped_networks_and_sharded_parameters_are_refused(tmp_path):
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SHARDED, tmp_path], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path}, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sharded, wrapped = done.stdout.splitlines()
    assert "is a DTensor, as FSDP's fully_shard makes them: a plan is for whole parameters on one device" in sharded
    assert "wrapped in DistributedDataParallel: plan the network inside, its .module, and install it" in wrapped
