"""Whether time limits hold: seconds of `plan` and of its first and latest signs of life, on networks of transformers.

    python scripts/bench_limits.py [NET ...] [--time-limit 10] [--budget 0.7] [--batch 60] [--threads 1]
                                   [--output limits.json]

NET is one of twelve networks of 250 to 700 operators that are made from configurations, with random parameters; by
default all are measured. Each figure comes of a process of its own, whose operators' costs are kept in a temporary
folder, so that the first one measures all of them. One thread computes, unless `--threads`: with more, OpenMP waits
for those that other programs keep from a processor, and a step may take a hundred times as long.

- operators: of the traced step, forward and backward pass
- new: seconds of `plan` where no operator has been measured before; kept: where all have been
- least: seconds of `plan` with the budget "least"; bytes: with a budget of as many bytes as the first plan takes
- none: seconds to the proof that no plan is within half of the gradients of parameters
- batch: seconds of `largest_batch` with this limit, where `--batch` is not 0
- first, silence: seconds to the first sign of life, and the longest without one, of all these calls of `plan`
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from row_tables import kept, print_columns

_CALLS = "new", "kept", "least", "bytes", "none"
_COLUMNS = ("net", "operators", *_CALLS, "batch", "first", "silence", "outcomes")
Made = tuple[Any, tuple[Any, ...]]
"""A module whose only output is a loss, and its inputs."""


def _of(architecture: str, config: str, inputs: str, **numbers: object) -> Callable[[int], Made]:
    """A network by the names of its classes in transformers, and the name of a function for its inputs."""

    def make(rows: int) -> Made:
        import torch
        import transformers

        torch.manual_seed(0)
        model = getattr(transformers, architecture)(getattr(transformers, config)(**numbers))
        return _loss_alone(model, [*INPUTS[inputs](rows)]), tuple(INPUTS[inputs](rows).values())

    return make


def _loss_alone(model: Any, names: Sequence[str]) -> Any:
    """A module that is called with inputs in this order, and returns one number."""
    import torch

    class LossAlone(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = model

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            found = self.net(**dict(zip(names, inputs, strict=True)), return_dict=True)
            loss = found.get("loss")
            return loss if loss is not None else found[0].float().square().mean()

    return LossAlone().train()


def _tokens(rows: int, length: int = 32) -> Any:
    import torch

    return torch.randint(3, 100, (rows, length), generator=torch.Generator().manual_seed(1))


def _image(rows: int, size: int, channels: int = 3) -> Any:
    import torch

    return torch.rand(rows, channels, size, size, generator=torch.Generator().manual_seed(2))


INPUTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "text": lambda rows: {"input_ids": _tokens(rows), "labels": _tokens(rows)},
    "image": lambda rows: {"pixel_values": _image(rows, 64), "labels": _tokens(rows, 1)[:, 0] % 2},
    "features": lambda rows: {"pixel_values": _image(rows, 64)},
    "both": lambda rows: {"input_ids": _tokens(rows), "pixel_values": _image(rows, 64)},
    "sound": lambda rows: {"input_features": _image(rows, 40)[:, 0].repeat(1, 1, 5)[:, :, :200],
                           "labels": _tokens(rows)},
}  # fmt: skip
"""Inputs by name, for batches of a number of rows."""
_WIDE = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
_SEEN = {**_WIDE, "image_size": 64, "patch_size": 8}
NETS: dict[str, Callable[[int], Made]] = {
    "gpt2": _of("GPT2LMHeadModel", "GPT2Config", "text", n_embd=64, n_layer=7, n_head=4, vocab_size=128),
    "t5": _of("T5ForConditionalGeneration", "T5Config", "text", d_model=64, d_kv=16, d_ff=128, num_layers=2,
              num_heads=4, vocab_size=128, decoder_start_token_id=0, pad_token_id=0),
    "bert": _of("BertForMaskedLM", "BertConfig", "text", **_WIDE, num_hidden_layers=9, vocab_size=128),
    "llama": _of("LlamaForCausalLM", "LlamaConfig", "text", **_WIDE, num_hidden_layers=6, vocab_size=128),
    "vit": _of("ViTForImageClassification", "ViTConfig", "image", **_SEEN, num_hidden_layers=12),
    "deit": _of("DeiTForImageClassification", "DeiTConfig", "image", **_SEEN, num_hidden_layers=8),
    "convnext": _of("ConvNextForImageClassification", "ConvNextConfig", "image", hidden_sizes=[16, 32, 64, 128],
                    depths=[2, 2, 6, 2]),
    "swin": _of("SwinForImageClassification", "SwinConfig", "image", image_size=64, patch_size=4, embed_dim=24,
                depths=[2, 2], num_heads=[2, 4], window_size=4),
    "mobilenet": _of("MobileNetV2ForImageClassification", "MobileNetV2Config", "image"),
    "resnet": _of("ResNetForImageClassification", "ResNetConfig", "image", embedding_size=16,
                  hidden_sizes=[32, 64, 128, 256], depths=[3, 4, 6, 3]),
    "clip": _of("CLIPModel", "CLIPConfig", "both",
                text_config={**_WIDE, "num_hidden_layers": 4, "vocab_size": 128, "eos_token_id": 2},
                vision_config={**_SEEN, "num_hidden_layers": 4}),
    "whisper": _of("WhisperForConditionalGeneration", "WhisperConfig", "sound", d_model=64, encoder_layers=4,
                   decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
                   decoder_ffn_dim=128, vocab_size=128, num_mel_bins=40, max_source_positions=100,
                   max_target_positions=64, decoder_start_token_id=1, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                   suppress_tokens=None, begin_suppress_tokens=None),
}  # fmt: skip
"""By name: what makes a network and its inputs for a number of rows."""
_ROWS = 4


def main() -> None:
    arguments = parse()
    if arguments.call:
        print(json.dumps(figures(arguments)))
        return
    rows = (row_of(name, arguments) for name in arguments.nets or NETS)
    print_columns(_COLUMNS, kept(rows, cells, arguments.output), left=("net", "outcomes"))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", choices=[*NETS, []])
    parser.add_argument("--budget", type=float, default=0.7, help="a fraction of the step")
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds for each call of plan")
    parser.add_argument("--batch", type=float, default=0.0, help="seconds for largest_batch; 0: it is not called")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--call", help=argparse.SUPPRESS)
    parser.add_argument("--peak", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def row_of(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of all calls with a network."""
    row: dict[str, Any] = {"net": name, "first": 0.0, "silence": 0.0, "outcomes": {}}
    peak = 0
    with tempfile.TemporaryDirectory() as kept:
        for call in (*_CALLS, *(["batch"] if arguments.batch else [])):
            found = in_a_process(name, call, arguments, kept, peak)
            row[call] = found["seconds"]
            row["outcomes"][call] = found["outcome"]
            peak = peak or found.get("peak", 0)
            row |= {key: found[key] for key in ("operators",) if key in found}
            if call != "batch":
                row |= {key: max(row[key], found[key]) for key in ("first", "silence")}
    return row


def in_a_process(name: str, call: str, arguments: argparse.Namespace, kept: str, peak: int) -> dict[str, Any]:
    """The figures of a call, in a process that does nothing else."""
    words = [name, "--call", call, "--peak", peak, "--budget", arguments.budget, "--time-limit", arguments.time_limit]
    words += ["--batch", arguments.batch, "--threads", arguments.threads]
    command = [sys.executable, __file__, *map(str, words)]
    environment = {**os.environ, "MOCCASIN_OPERATORS": kept}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def figures(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a call takes here, PyTorch and transformers being there already."""
    import torch

    from moccasin_mzn.pytorch import PlanError, largest_batch, plan

    torch.set_num_threads(arguments.threads)
    name, call = arguments.nets[0], arguments.call
    model, inputs = NETS[name](_ROWS)
    stay = sum(each.nbytes for each in model.parameters() if each.requires_grad)
    budget = {"least": "least", "bytes": arguments.peak, "none": stay // 2}.get(call, arguments.budget)
    heard: list[float] = []
    begin = time.monotonic()
    try:
        if call == "batch":
            found = largest_batch(model, lambda rows: NETS[name](rows)[1], 4 * stay, time_limit=arguments.batch, seed=0)
            return {"seconds": time.monotonic() - begin, "outcome": f"{found.batch}"}
        found = plan(
            model, inputs, budget=budget, time_limit=arguments.time_limit, seed=0,
            on_progress=lambda _: heard.append(time.monotonic() - begin),
        )  # fmt: skip
        operators = len(found.graph.nodes)
        more = {"outcome": str(found.status), "operators": operators, "peak": found.predicted_peak}
    except PlanError as error:
        more = {"outcome": f"{type(error).__name__}: {error}"}
    seconds = time.monotonic() - begin
    moments = [0.0, *heard, seconds]
    silence = max(after - before for before, after in zip(moments, moments[1:], strict=False))
    return {"seconds": seconds, "first": min(heard, default=seconds), "silence": silence, **more}


def cells(row: dict[str, Any]) -> list[str]:
    """Return the cells of a table's row."""
    outcomes = ", ".join(f"{call} {text.split(':')[0]}" for call, text in row["outcomes"].items())
    values = [row.get(key, "-") for key in _COLUMNS[1:-1]]
    return [row["net"], *(f"{each:.2f}" if isinstance(each, float) else str(each) for each in values), outcomes]


if __name__ == "__main__":
    main()
