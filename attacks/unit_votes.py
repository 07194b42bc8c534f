"""Unit votes: each hidden unit of a neural ranker tells on its own which documents were clicked."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.plugins import Attack, FirstLayer, Inference, View
from foltr_audit.utils.arrays import Floats

_FAINT = 0.002  # of the usual vote: smaller sums of votes name no document


class UnitVotes(Attack):
    """Solves the first layer's update unit by unit, and sums what the units say of each document.

    A unit's row of the first layer's update is a sum of the documents' features, whatever the loss, and also
    if dropout has switched the unit off for some documents: a_ih is 0 for those, and else has the sign of the
    document's gradient times the unit's weight in the score. Least absolute deviations find a_ih of all
    documents from the d numbers of a row. Of each unit a document gets the vote a_ih w_h / sum w^2, cut at
    the usual size of votes, so that no unit with much noise outvotes the others. Documents with a positive
    sum are named: right where a click raises its document's score, as with pairwise, listwise and pointwise
    losses. A document whose units are all off is not named. A linear ranker counts as one unit. A message
    must have clearly fewer documents than features, else their coefficients are not determined.

    Sees: the message, the global model, features of the shown documents, where the first layer lies.

    Source: the rows of the first layer as sums of inputs, Geiping et al. 2020, "Inverting gradients: how easy
    is it to break privacy in federated learning?", section 3.1; Bloomfield & Steiger 1983, "Least absolute
    deviations", chapter 6.
    """

    name: ClassVar[str] = "unit-votes"
    takes_step: ClassVar[bool] = True

    def why_not(self, view: View) -> str | None:
        reason = super().why_not(view)
        if reason is not None:
            return reason
        layer = view.first_layer
        if layer is None:
            return "the client step does not say where its first layer lies"
        if layer.output is None and layer.units > 1 and view.knowledge.client_step is not None:
            return (
                "how units enter the score is not known: the client step's network is deeper than one layer"
            )
        return layer.problem(view.parameters.shape[1], view.features.shape[3])

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the sum of the units' votes, relative to the usual vote."""
        layer = view.first_layer
        if layer is None or not view.shown.size:
            return Inference(scores=np.zeros(view.shown.shape), guess=np.zeros(view.shown.shape, np.bool_))
        weights = _weights_in_score(view, layer)
        sizes = (weights**2).sum(axis=1, keepdims=True)
        shares = np.divide(weights, sizes, out=np.zeros_like(weights), where=sizes > 0)
        votes = _coefficients(view, layer) * shares
        usual = np.array([np.median(size[size > 0]) if size.any() else 0.0 for size in np.abs(votes)])
        usual = usual[:, np.newaxis]
        sums = np.clip(votes, -usual[..., np.newaxis], usual[..., np.newaxis]).sum(axis=1)
        scores = np.divide(sums, usual, out=np.zeros_like(sums), where=usual > 0).reshape(view.shown.shape)
        return Inference(scores=scores, guess=(scores > _FAINT) & view.is_document)


def _coefficients(view: View, layer: FirstLayer) -> Floats:
    """What each document's features are multiplied by in each unit's row, (n, units, B k); 0 up to rounding.

    An active clip adds a multiple of the global model, which is one more column.
    """
    from foltr_audit.kernels.regression import least_absolute

    (n, B, k), d = view.shown.shape, layer.inputs
    documents = view.features.reshape(n, B * k, d).transpose(0, 2, 1).astype(np.float64)
    columns = np.empty((n, layer.units, d, B * k + 1))
    columns[..., :-1] = documents[:, np.newaxis]
    columns[..., -1] = layer.rows(view.parameters)
    rows, messages = layer.rows(view.updates), layer.rows(view.messages)
    flat = columns.reshape(n * layer.units, d, B * k + 1)
    found = least_absolute(flat, rows.reshape(n * layer.units, d))[:, :-1]
    # Rounding of the message alone moves a coefficient by about this much.
    rounding = view.knowledge.resolution * np.abs(messages).max(axis=2).reshape(-1, 1)
    size = np.abs(documents).max(axis=1)[:, np.newaxis].repeat(layer.units, axis=1).reshape(found.shape)
    least = np.divide(rounding, size, out=np.full_like(found, np.inf), where=size > 0)
    return np.where(np.abs(found) > least, found, 0.0).reshape(n, layer.units, B * k)


def _weights_in_score(view: View, layer: FirstLayer) -> Floats:
    """How much each unit raises each document's score, (n, units, B k), or (n, units, 1) for all alike."""
    if layer.output is not None:
        return view.parameters[:, layer.output : layer.output + layer.units, np.newaxis]
    if layer.bias is None:
        return np.ones((len(view), 1, 1))
    n, B, k, _ = view.jacobian.shape
    slopes = view.jacobian[..., layer.bias : layer.bias + layer.units].reshape(n, B * k, layer.units)
    return slopes.transpose(0, 2, 1)
