"""What Flower's own mods do to an update, as facts of a trace."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flwr.clientapp.mod import LocalDpMod


def local_dp_facts(mod: LocalDpMod) -> dict[str, object]:
    """What `LocalDpMod` does, as facts of a trace, since it lies with the clients and no message says it.

    It clips the update to an L2 ball and adds Gaussian noise of standard deviation
    `sensitivity * sqrt(2 * ln(1.25 / delta)) / epsilon` to every number (Dwork and Roth 2014, theorem A.1).
    The sensitivity is declared apart from the clip; a client's update can change by up to twice the clip.

        RecordingGrid(grid, "trace", facts=local_dp_facts(LocalDpMod(1.0, 1.0, 8.0, 1e-5)))

    Args:
        mod: the mod, as the clients have it.

    Raises:
        ValueError: an epsilon or delta of 0, which makes no finite noise.
    """
    if not mod.epsilon or not mod.delta:
        raise ValueError(f"epsilon {mod.epsilon}, delta {mod.delta}; expected numbers above 0")
    sigma = mod.sensitivity * math.sqrt(2 * math.log(1.25 / mod.delta)) / mod.epsilon
    return {
        "update_clip_norm": float(mod.clipping_norm),
        "local_dp_clip": float(mod.clipping_norm),
        "local_dp_eps": float(mod.epsilon),
        "local_dp_delta": float(mod.delta),
        "claimed_sensitivity": float(mod.sensitivity),
        "noise": f"gaussian:sigma={sigma!r}" if sigma else "none",
    }
