"""What the client step of a view computes for its messages, with every value checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.errors import PluginError
from foltr_audit.utils.arrays import Features, Floats

if TYPE_CHECKING:
    from foltr_audit.core.plugins.client_step import ClientStep


def checked_updates(step: ClientStep, model: Floats, features: Features, clicks: Floats) -> Floats:
    """The updates (H, P) of click patterns (H, L) on a list with rows (L, d), from a global model (P,).

    Raises:
        PluginError: the step raises, or gives another shape or a number that is not finite.
    """
    who = f"client step {step.text}"
    if not len(clicks):
        return np.zeros((0, model.size))
    try:
        found = np.asarray(step.updates(model, features.astype(np.float64), clicks), dtype=np.float64)
    except PluginError:
        raise
    except Exception as error:  # the step is the user's own code
        raise PluginError(f"{who} raised {type(error).__name__}: {' '.join(str(error).split())}") from error
    expected = (len(clicks), model.size)
    if found.shape != expected:
        raise PluginError(f"{who} gave an update of shape {found.shape[1:]}; expected {expected[1:]}")
    if not np.all(np.isfinite(found)):
        raise PluginError(f"{who} gave a number that is not finite")
    return found


def effects_of_clicks(step: ClientStep, model: Floats, features: Features) -> tuple[Floats, Floats]:
    """The update without clicks (P,), and by how much a single click on each document changes it (L, P).

    Exact where an update is linear in the clicks, as for a step of gradient descent on a sum over clicks.
    """
    L = len(features)
    rows = checked_updates(step, model, features, np.concatenate([np.zeros((1, L)), np.eye(L)]))
    return rows[0], rows[1:] - rows[0]


def checked_scores(step: ClientStep, model: Floats, features: Features) -> Floats:
    """Scores (L,) of documents (L, d) under a model (P,).

    Raises:
        PluginError: the step gives no scores, another shape, or a number that is not finite.
    """
    found = np.asarray(step.scores(model, features.astype(np.float64)), dtype=np.float64)
    if found.shape != (len(features),) or not np.all(np.isfinite(found)):
        expected = f"{len(features)} finite numbers"
        raise PluginError(f"client step {step.text} gave scores of shape {found.shape}; expected {expected}")
    return found
