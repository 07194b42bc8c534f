"""Regressions that few large errors of a message do not move: least absolute deviations, Tukey's biweight."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np

from foltr_audit.inference.linear_systems import (
    clicks_in_box,
    name_above_gap,
    rounding_fit,
    with_model_column,
)
from foltr_audit.plugins import Attack, Inference, View
from foltr_audit.utils.arrays import Floats


class LeastAbsolute(Attack):
    """Regresses the update on the shown documents' Jacobian rows and the global model in the L1 norm.

    A client's share of the noise barely changes most numbers of a message and moves a few far away. Least
    squares spreads these few errors over all weights; least absolute deviations fit the other numbers. The
    column of the global model absorbs what an active clip adds. Positive weights below a gap of three orders
    of magnitude count as 0: small noise gives such weights to documents without a click. With a client step,
    the columns are what a click on each document adds to its update, the unknowns are clicks between 0 and 1,
    and a document is named from half a click on.

    Sees: the message, the global model, features of the shown documents; the client step, if there is one.

    Source: Bloomfield & Steiger 1983, "Least absolute deviations", chapter 6, for the regression; on updates
    of Pham 2022, "Federated learning for online learning to rank", section 4.1.
    """

    name: ClassVar[str] = "lad"
    takes_step: ClassVar[bool] = True
    observers: ClassVar[frozenset[str]] = frozenset({"individual", "aggregate"})

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        from foltr_audit.kernels.regression import least_absolute

        columns = with_model_column(view)
        if view.knowledge.client_step is None:
            weights = least_absolute(columns, view.updates)[:, :-1]
        else:
            weights = clicks_in_box(view, columns, absolute=True)
        return name_above_gap(view, rounding_fit(view, columns, weights))


class Tukey(Attack):
    """Starts from least absolute deviations and refines them with Tukey's biweight (statsmodels' RLM).

    With 10 to 100 clients the noise is no longer sparse, and least absolute deviations no longer fit the
    right numbers exactly; a bounded loss still names the right documents slightly more often. (A Huber loss
    and a start from least squares were both worse than least absolute deviations alone.)

    Sees: the message, the global model, features of the shown documents.

    Source: Beaton & Tukey 1974, "The fitting of power series, meaning polynomials, illustrated on
    band-spectroscopic data", Technometrics 16, section 5; Huber & Ronchetti 2009, "Robust statistics",
    chapter 7, for the iterations.
    """

    name: ClassVar[str] = "tukey"
    takes_step: ClassVar[bool] = True

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        from foltr_audit.kernels.regression import least_absolute

        columns, updates = with_model_column(view), view.click_updates
        weights = least_absolute(columns, updates)
        for i in range(len(view)):
            weights[i] = refitted(columns[i], updates[i], weights[i])
        return name_above_gap(view, rounding_fit(view, columns, weights[:, :-1]))


def refitted(columns: Floats, values: Floats, start: Floats) -> Floats:
    """Weights (m,) of Tukey's biweight regression of values (P,) on columns (P, m), from a start (m,).

    Returns the start if it fits most numbers exactly, or if the iterations give weights that are not finite.
    """
    from statsmodels.robust.norms import TukeyBiweight
    from statsmodels.robust.robust_linear_model import RLM

    size = np.abs(values).max(initial=0.0)
    residuals = np.abs(values - columns @ start)
    if columns.shape[0] <= columns.shape[1] or not np.median(residuals) > 1e-6 * size:
        return start
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # about convergence: weights that have not converged are usable
        model = RLM(values / size, columns, M=TukeyBiweight())
        found = np.asarray(model.fit(start_params=start / size, maxiter=50, tol=1e-10).params) * size
    return found if np.all(np.isfinite(found)) else start
