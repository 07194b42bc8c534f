"""Document pursuit: documents and their clicks, read from a message without knowing any list."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from foltr_audit.inference.linear_systems import LeastSquaresFit, least_squares, roundings
from foltr_audit.plugins import Attack, FirstLayer, Inference, View
from foltr_audit.utils.arrays import Bools, Floats

_ROUNDING = 1e-3  # most that rounding may move a feature that is read
_NEAR = 0.05  # of a gradient, at most, that one document leaves unexplained
_SURE = 4.0  # rounding errors that a weight must exceed
_MOST = 2_000  # documents of an answer
_NUMBERS = 1 << 25  # of the Jacobian of a collection, which bounds its memory


class _Gradients(NamedTuple):
    """What U units of one message say, in the order of their biases.

    Attributes:
        weights, biases: of the units in the global model, (U, d) and (U,).
        sums: over active documents, of their weights times features and, last, of the weights, (U, d + 1).
        errors: rounding errors of these, (U, d + 1).
    """

    weights: Floats
    biases: Floats
    sums: Floats
    errors: Floats

    def active(self, documents: Floats) -> Bools:
        """Whether documents (m, d) activate each unit and, last, False, bool (m, U + 1)."""
        active = documents @ self.weights.T + self.biases > 0
        return np.concatenate([active, np.zeros((len(documents), 1), np.bool_)], axis=1)

    @property
    def differences(self) -> tuple[Floats, Floats]:
        """The sums of each unit less those of the next one, with their errors, (U, d + 1)."""
        nothing = np.zeros((1, self.sums.shape[1]))
        below, beside = np.concatenate([self.sums[1:], nothing]), np.concatenate([self.errors[1:], nothing])
        return self.sums - below, self.errors + beside


class DocumentPursuit(Attack):
    """Reads which documents were shown, and whether they were clicked, without the lists.

    A hidden unit's row of the first layer's update is the sum of the documents for which it is active, each
    times its weight in PDGD, and its bias has the sum of these weights. The difference of two neighbours, in
    the order of their biases, is that of the documents for which one of them is active. If that is one
    document, it is the row over the bias, and nothing need be known of it, but a mean of several documents
    can look the same. Where the server knows the collection, the difference is solved for the weights of the
    documents that it can hold: by least squares if they are few, else by adding one document after the other
    until they explain it. If no two units differ in few documents, and with rankers without one hidden
    layer, documents of the whole collection are added in that way until they explain the whole update. A
    positive weight means a click.

    Sees: the message, the global model; all documents of the collection, if they are known. Not the lists.

    Source: Boenisch et al. 2023, "When the curious abandon honesty: Federated learning is not private",
    section 4 (row over bias); Fowl et al. 2022, "Robbing the fed: Directly obtaining private data in
    federated learning with modified models", section 4 (differences of neighbours); Pati, Rezaiifar &
    Krishnaprasad 1993, "Orthogonal matching pursuit", section 2 (one document after the other).
    """

    name: ClassVar[str] = "document-pursuit"
    asks: ClassVar[str | type] = "documents"
    observers: ClassVar[frozenset[str]] = frozenset({"individual", "aggregate"})
    needs: ClassVar[frozenset[str]] = frozenset()

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The answer has a row for each document that is read: its features, and 1 or -1 for a click or none.

        Rows without a document are NaN, float64 (n, most documents, d + 1).
        """
        d, layer = view.features.shape[3], view.ranker.first_layer
        collection = None
        if view.candidates is not None:
            collection = np.unique(view.candidates.features.astype(np.float64), axis=0)
        most = min(_MOST, 2 * layer.units if collection is None else len(collection))
        answers = np.full((len(view), most, d + 1), np.nan)
        for i in range(len(view)):
            seen = _gradients(view, i, layer)
            if collection is not None:
                found = _solved(seen, collection) if seen is not None else np.empty((0, d + 1))
                found = found if len(found) else _pursued(view, i, collection)
            else:
                found = _ratios(seen) if seen is not None else np.empty((0, d + 1))
            answers[i, : len(found)] = found[:most]
        return Inference.about(view, answers)


def _gradients(view: View, i: int, layer: FirstLayer) -> _Gradients | None:
    """What the units of message i say; None without one hidden layer. Units without a weight say nothing."""
    if layer.output is None or layer.bias is None:
        return None
    bias = layer.bias

    def units(vector: Floats) -> Floats:
        rows = layer.rows(vector[np.newaxis])[0]
        return np.concatenate([rows, vector[bias : bias + layer.units, np.newaxis]], axis=1)

    model, update, error = (units(each[i]) for each in (view.parameters, view.updates, roundings(view)))
    after = view.parameters[i, layer.output : layer.output + layer.units, np.newaxis]
    used = np.flatnonzero(after[:, 0])
    used = used[np.argsort(-model[used, -1], kind="stable")]
    scaled, errors = update[used] / after[used], error[used] / np.abs(after[used])
    return _Gradients(model[used, :-1], model[used, -1], scaled, errors)


def _ratios(seen: _Gradients) -> Floats:
    """Documents that are alone in a unit, or in the difference of two, with the signs of their weights."""
    differences, off = seen.differences
    sums, errors = np.concatenate([seen.sums, differences]), np.concatenate([seen.errors, off])
    sure = np.abs(sums[:, -1]) * _ROUNDING > errors.max(axis=1)
    documents, signs = sums[sure, :-1] / sums[sure, -1:], np.sign(sums[sure, -1:])
    active, row = seen.active(documents), np.arange(len(documents))
    unit = np.tile(np.arange(len(seen.sums)), 2)[sure]
    single = np.flatnonzero(sure) < len(seen.sums)
    kept = active[row, unit] & (single | ~active[row, unit + 1])
    return np.column_stack([documents[kept], signs[kept]])


def _solved(seen: _Gradients, collection: Floats) -> Floats:
    """Documents of a collection (N, d) that explain the differences of units, with their weights' signs."""
    active = seen.active(collection).astype(np.float64)
    change = active[:, :-1] - active[:, 1:]
    rows = np.concatenate([collection, np.ones((len(collection), 1))], axis=1)
    found = [np.empty((0, rows.shape[1]))]
    for unit, (value, error) in enumerate(zip(*seen.differences, strict=True)):
        here = np.flatnonzero(change[:, unit])
        if not here.size or (np.abs(value) <= _SURE * error).all():
            continue
        columns = (rows[here] * change[here, unit, np.newaxis]).T
        chosen, signs = _explained(columns, value, error)
        found.append(np.concatenate([collection[here[chosen]], signs[:, np.newaxis]], axis=1))
    return np.concatenate(found)


def _explained(columns: Floats, value: Floats, error: Floats) -> tuple[list[int], Floats]:
    """Which columns (r, m) explain a value (r,), and the signs of their weights; none if none do."""
    half = columns.shape[0] // 2
    if columns.shape[1] <= half:
        every = list(range(columns.shape[1]))
        fit = _fit(columns, every, value, error)
        if not fit.noisy[0]:
            return _signed(every, fit)
    return _matched(columns, value, error, half, near=_NEAR)


def _pursued(view: View, i: int, collection: Floats) -> Floats:
    """Documents of a collection (N, d) that explain the update of message i, with their weights' signs."""
    P, width = view.parameters.shape[1], collection.shape[1] + 1
    update, error = view.updates[i], roundings(view)[i]
    if len(collection) * P > _NUMBERS or (np.abs(update) <= _SURE * error).all():
        return np.empty((0, width))
    columns = view.ranker.jacobian(view.parameters[i], collection).T
    # Some that are added first are not shown, and turn out to have no weight.
    shown = 3 * view.shown.shape[1] * view.shown.shape[2]
    chosen, signs = _matched(columns, update, error, min(P // 4, shown))
    return np.concatenate([collection[chosen], signs[:, np.newaxis]], axis=1)


def _matched(
    columns: Floats, value: Floats, error: Floats, most: int, near: float = 0.0
) -> tuple[list[int], Floats]:
    """Columns, added one by one until they explain a value up to rounding; a single one up to `near`."""
    sizes = np.linalg.norm(columns, axis=0)
    usable = sizes > 0
    left, base, chosen = value, np.empty((0, value.size)), list[int]()
    while len(chosen) < min(most, int(usable.sum())):
        match = np.where(usable, np.abs(left @ columns) / np.where(usable, sizes, 1.0), -1.0)
        match[chosen] = -1.0
        chosen.append(int(match.argmax()))
        new = columns[:, chosen[-1]]
        for _ in range(2):  # the second time takes away what rounding left
            new = new - base.T @ (base @ new)
        length = float(np.linalg.norm(new))
        if not length > 1e-9 * sizes[chosen[-1]]:
            break
        base = np.concatenate([base, new[np.newaxis] / length])
        left = value - base.T @ (base @ value)
        alone = len(chosen) == 1 and np.linalg.norm(left) <= near * np.linalg.norm(value)
        # The bound of a fit is somewhat larger: this one says when to look.
        if alone or np.abs(left).max() <= 64 * error.max() + 1e-12 * np.abs(value).max():
            fit = _fit(columns, chosen, value, error)
            if alone or not fit.noisy[0]:
                return _signed(chosen, fit)
    return [], np.empty(0)


def _fit(columns: Floats, chosen: list[int], value: Floats, error: Floats) -> LeastSquaresFit:
    return least_squares(columns[np.newaxis][:, :, chosen], value[np.newaxis], error[np.newaxis])


def _signed(chosen: list[int], fit: LeastSquaresFit) -> tuple[list[int], Floats]:
    """The columns whose weights are more than rounding, and the signs of these."""
    weights, errors = fit.weights[0], fit.errors[0]
    sure = np.abs(weights) > _SURE * errors
    return [one for one, kept in zip(chosen, sure, strict=True) if kept], np.sign(weights[sure])
