"""What a message says of each shown document, and trees that learn from it which documents are clicked."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.core.plugins import ClientStep
from foltr_audit.core.records.view import View
from foltr_audit.inference.linear_systems import least_squares, roundings, with_model_column
from foltr_audit.inference.pattern_decoder import Prior, click_beliefs
from foltr_audit.inference.shadow_messages import MessageForm, shadow_messages
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.blas_threads import one_thread

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

_DIGITS = 5  # features and probabilities are rounded, so that no processor's last digits decide a split
_FAR = 1e6  # features are cut off here
_NUMBERS = 1 << 21  # numbers of the Jacobians of shadows that are simulated at once: 16 MB
_MOST_NUMBERS = 1 << 24  # and of all of them: the work of their regressions
_BY_STEP = 10_000  # the most documents of a client step, which may be slow
_LEAVES = 16  # of a tree
_EQUATIONS = 512  # of a regression in the L1 norm, whose time grows faster than their number


def document_features(view: View, prior: Prior) -> Floats:
    """What messages say of each shown document, rounded, float64 (n, B, k, F).

    Regression weights, in the L1 norm and by least squares, in units of the step size, and changes of scores,
    each with the neighbours' and as they stand in the list; residuals; position, length of the list, size of
    the row, score, size of the update; last, how likely a click is before the message.
    """
    from foltr_audit.kernels.regression import least_absolute

    there, updates = view.is_document, view.click_updates
    n, B, k = there.shape
    columns, size = with_model_column(view), _length(updates)
    fits = (
        least_absolute(*_largest_equations(columns, updates)),
        least_squares(columns, updates, roundings(view), view.feature_resolution).weights,
    )
    found: list[Floats] = []
    for weights in fits:
        weight = weights[:, :-1].reshape(n, B, k) / (view.knowledge.learning_rate or 1.0)
        left = updates - np.einsum("npm,nm->np", columns, weights)
        found += [*_in_list(weight, there), _of_message(_over(_length(left), size), view)]
    change = np.einsum("nbkp,np->nbk", view.jacobian, updates)
    found += _in_list(_over(change, np.abs(change).max(axis=(1, 2), keepdims=True, initial=0.0)), there)
    length = there.sum(axis=2, keepdims=True)
    score = np.zeros(there.shape) if view.knowledge.client_step is not None else view.scores_before
    found += [
        np.broadcast_to(np.arange(k), there.shape),
        np.broadcast_to(length, there.shape),
        _length(view.jacobian),
        score - _over(score.sum(axis=2, keepdims=True), length),
        _of_message(np.log10(np.maximum(size, np.finfo(np.float64).tiny)), view),
        click_beliefs(view, prior)[0],
    ]
    values: Floats = np.nan_to_num(np.stack(found, axis=-1), nan=0.0, posinf=_FAR, neginf=-_FAR)
    return np.asarray(np.round(np.clip(values, -_FAR, _FAR), _DIGITS), dtype=np.float64)


def _largest_equations(columns: Floats, values: Floats) -> tuple[Floats, Floats]:
    """The equations (n, E, m) and (n, E) of a system whose columns have the largest numbers."""
    most = max(_EQUATIONS, 4 * columns.shape[2])
    if columns.shape[1] <= most:
        return columns, values
    sizes = np.abs(columns).sum(axis=2)
    kept = np.sort(np.argsort(-sizes, axis=1, kind="stable")[:, :most], axis=1)
    values = np.take_along_axis(values, kept, axis=1)
    return np.take_along_axis(columns, kept[..., np.newaxis], axis=1), values


def _length(vectors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("...p,...p->...", vectors, vectors)))


def _over(values: Floats, by: Floats | Ints) -> Floats:
    """Quotients, 0 where the divisor is."""
    shape = np.broadcast_shapes(values.shape, by.shape)
    return np.asarray(np.divide(values, by, out=np.zeros(shape), where=by > 0))


def _of_message(values: Floats, view: View) -> Floats:
    """A value of each message (n,), at each of its documents."""
    return np.broadcast_to(values[:, np.newaxis, np.newaxis], view.shown.shape)


def _in_list(values: Floats, there: Bools) -> list[Floats]:
    """Values of documents (n, B, k), those of their neighbours, and how they stand in their list."""
    held = np.where(there, values, 0.0)
    padded = np.pad(held, ((0, 0), (0, 0), (1, 1)))
    below = np.maximum.accumulate(np.abs(padded[..., ::-1]), axis=2)[..., ::-1]
    among = np.where(there, values, -np.inf)
    mean = _over(held.sum(axis=2, keepdims=True), there.sum(axis=2, keepdims=True))
    return [
        held,
        held - mean,
        padded[..., :-2],
        padded[..., 2:],
        below[..., 2:],
        np.maximum.accumulate(held, axis=2),
        (among[..., np.newaxis, :] > among[..., np.newaxis]).sum(axis=-1).astype(np.float64),
        among.max(axis=2, keepdims=True, initial=-np.inf) - held,
    ]


@dataclass(frozen=True)
class ClickClassifier:
    """Gradient-boosted trees that give documents the probability of a click.

    `always` stands for trees where the shadows had one answer only.

    Source: Friedman 2001, "Greedy function approximation: a gradient boosting machine", algorithm 5; the
    histograms of Ke et al. 2017, "LightGBM: a highly efficient gradient boosting decision tree".
    """

    trees: HistGradientBoostingClassifier | None
    always: float

    def probabilities(self, features: Floats) -> Floats:
        """Of documents (D, F), float64 (D,)."""
        if self.trees is None or not len(features):
            return np.full(len(features), self.always)
        with one_thread("openmp"):
            found = self.trees.predict_proba(features)[:, 1]
        return np.asarray(np.round(found, _DIGITS), dtype=np.float64)


_MOST_KEPT = 16
_kept: OrderedDict[bytes, tuple[ClickClassifier, ClientStep | None]] = OrderedDict()
"""The last classifiers, by all that they depend on, each with the client step that its key identifies."""


@dataclass(frozen=True)
class ShadowTraining:
    """How much a classifier learns from, by which prior."""

    prior: Prior
    documents: int
    trees: int

    def of_message(self, view: View, row: int, form: MessageForm) -> ClickClassifier:
        """A classifier of messages that have a form and start from the model of message `row` of a view.

        It is kept for other views of the same model, such as the sums of many cohorts.
        """
        key = self._key(view, row, form)
        if key in _kept:
            _kept.move_to_end(key)
        else:
            _kept[key] = self._trained(view, row, form), view.knowledge.client_step
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
        return _kept[key][0]

    def _key(self, view: View, row: int, form: MessageForm) -> bytes:
        """A digest of all that a classifier depends on."""
        known, candidates = view.knowledge, view.candidates
        facts = (
            *(self, form, view.observer, int(view.clients[row]), view.labels is None),
            *(replace(known, belief=None, client_step=None), id(known.client_step)),
        )
        digest = hashlib.sha256(repr(facts).encode())
        arrays = [view.parameters[row]]
        if candidates is not None:
            arrays += [candidates.offsets, candidates.features]
        if known.belief is not None:
            arrays += [known.belief.click, known.belief.stop, known.belief.grades]
        for each in arrays:
            digest.update(np.ascontiguousarray(each).data)
        return digest.digest()

    def _trained(self, view: View, row: int, form: MessageForm) -> ClickClassifier:
        features, clicks = self._examples(view, row, form)
        if clicks.all() or not clicks.any():
            return ClickClassifier(None, float(clicks.all()))
        from sklearn.ensemble import HistGradientBoostingClassifier

        # Without a sample for early stopping nothing is drawn, and one thread adds in one order.
        trees = HistGradientBoostingClassifier(
            max_iter=self.trees,
            max_leaf_nodes=_LEAVES,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=0,
        )
        with one_thread("openmp"):
            return ClickClassifier(trees.fit(features, clicks), 0.0)

    def _examples(self, view: View, row: int, form: MessageForm) -> tuple[Floats, Bools]:
        """Features (D, F) of documents of shadow messages, and whether they were clicked, (D,)."""
        each = form.lists * form.documents
        documents = min(self.documents, _MOST_NUMBERS // view.parameters.shape[1])
        if view.knowledge.client_step is not None:
            documents = min(documents, _BY_STEP)
        count = max(1, documents // each)
        most = max(1, _NUMBERS // (each * view.parameters.shape[1]))
        features, clicks = [], []
        for part, first in enumerate(range(0, count, most)):
            shadows = shadow_messages(view, row, form, min(most, count - first), part)
            here = shadows.view.is_document
            features.append(document_features(shadows.view, self.prior)[here])
            clicks.append(shadows.clicks[here])
        return np.concatenate(features), np.concatenate(clicks)
