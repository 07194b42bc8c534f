"""OLSR: least squares of the update on the shown documents' features."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from foltr_audit.plugins import Attack, Inference, View


def least_squares(columns: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shortest least-squares solution of each of n systems.

    Args:
        columns: float64 (n, P, m), one column per unknown.
        values: float64 (n, P).

    Returns:
        float64 (n, m). Singular values below `max(P, m) * 2.2e-16` of the largest count as zero, so
        twin documents share their weight and a system without columns answers zeros.
    """
    if not columns.size:
        return np.zeros((columns.shape[0], columns.shape[2]))
    U, s, Vt = np.linalg.svd(columns, full_matrices=False)
    floor = np.finfo(np.float64).eps * max(columns.shape[1:]) * s.max(axis=-1, keepdims=True, initial=0.0)
    inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s > floor)
    weights = inverse * np.einsum("npr,np->nr", U, values)
    return np.asarray(np.einsum("nrm,nr->nm", Vt, weights))


class OLSR(Attack):
    """Regresses the update on the feature rows of the shown documents; positive weight = clicked.

    A PDGD update is a sum of feature rows, with positive weights for clicked documents and negative
    ones for the others that count. With several interactions in a message all their documents are
    columns of one system. Documents outside the observed prefix have weight 0 up to rounding, so a
    weight must exceed `tolerance` times the message's largest absolute one.

    Sees: the message, the global model, features of the shown documents.

    Source: Pham 2022, "Federated learning for online learning to rank", section 4.1.
    """

    name: ClassVar[str] = "olsr"

    tolerance: float = Field(1e-6, ge=0, lt=1, description="share of the largest weight that counts as 0")

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the regression weight."""
        del rng
        n, B, k = view.shown.shape
        columns = (
            view.features.reshape(n, B * k, view.features.shape[3]).astype(np.float64).transpose(0, 2, 1)
        )
        weights = least_squares(columns, view.updates).reshape(n, B, k)
        largest = np.max(np.abs(weights), axis=(1, 2), keepdims=True, initial=0.0)
        guess = (weights > self.tolerance * largest) & view.is_document
        return Inference(scores=weights, guess=guess)
