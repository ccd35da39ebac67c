"""Without PyTorch none of these tests is collected."""

from torch_here import collect_ignore_glob

__all__ = ["collect_ignore_glob"]
