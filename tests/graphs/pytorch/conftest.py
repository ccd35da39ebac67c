"""Without PyTorch none of these tests is collected."""

from optional import WITH_TORCH

collect_ignore_glob = WITH_TORCH
