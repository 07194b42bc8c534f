"""What the client step of a view computes for its messages, with every value checked."""

from __future__ import annotations

from collections.abc import Callable
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
    if not len(clicks):
        return np.zeros((0, model.size))
    return _called(step, "an update", step.updates, model, features, clicks, shape=(len(clicks), model.size))


def checked_slopes(step: ClientStep, model: Floats, features: Features, clicks: Floats) -> Floats:
    """Derivatives (L, P) of the update by each relaxed click at clicks (L,); raises as `checked_updates`."""
    return _called(step, "a slope", step.slopes, model, features, clicks, shape=(len(clicks), model.size))


def _called(
    step: ClientStep,
    what: str,
    function: Callable[..., Floats],
    *given: Floats | Features,
    shape: tuple[int, ...],
) -> Floats:
    """What the user's code makes of copies of some arrays, which it may change."""
    who = f"client step {step.text}"
    try:
        found = np.asarray(function(*(np.array(one, dtype=np.float64) for one in given)), dtype=np.float64)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(f"{who} raised {type(error).__name__}: {' '.join(str(error).split())}") from error
    if found.shape != shape:
        rows = len(shape) - 1  # of several updates, the shape of one is named
        raise PluginError(f"{who} gave {what} of shape {found.shape[rows:]}; expected {shape[rows:]}")
    if not np.all(np.isfinite(found)):
        raise PluginError(f"{who} gave {what} with a number that is not finite")
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
    return _called(step, "scores", step.scores, model, features, shape=(len(features),))
