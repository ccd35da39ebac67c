"""Performance profiles (Dolan and More, Benchmarking optimization software with performance profiles, Mathematical
Programming 91, 2002): the share of problems on which a method is within a factor of the best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Profile:
    """A step function: the share of problems with a ratio up to `ratios[k]`."""

    ratios: np.ndarray
    """To the best of all methods, from 1 on, ascending."""
    shares: np.ndarray
    """Ascending, up to 1."""

    def at(self, ratio: float) -> float:
        """The share of problems within `ratio` of the best."""
        position = np.searchsorted(self.ratios, ratio, side="right")
        return float(self.shares[position - 1]) if position else 0.0


def performance_profiles(values: pd.DataFrame, floor: float = 0.0) -> dict[str, Profile]:
    """A profile for each method.

    Args:
        values: what is to be small, for problems (rows) and methods (columns); infinite or NaN: never within any
            factor. Problems on which all are infinite do not count.
        floor: values below count as this, so that what cannot be measured makes no ratio.

    Raises:
        ValueError: a value that counts is not positive.
    """
    kept = values.clip(lower=floor)
    kept = kept[np.isfinite(kept).any(axis=1)]
    best = kept.min(axis=1)
    if (best <= 0).any():
        raise ValueError("ratios need positive values")
    profiles = {}
    for method in kept.columns:
        ratios = (kept[method] / best).to_numpy(dtype=float)
        ratios = np.sort(ratios[np.isfinite(ratios)])
        profiles[method] = Profile(ratios, np.arange(1, len(ratios) + 1) / max(1, len(kept)))
    return profiles
