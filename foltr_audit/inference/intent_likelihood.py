"""How probable messages are under the grades of each intent, list by list."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.inference.joint_search import joint_clicks
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.utils.arrays import Floats, Ints


def under_each(view: View) -> list[PatternDecoder]:
    """One decoder per intent of a view; its belief follows the grades under that intent."""
    labels = view.intent_labels
    intents = 0 if labels is None else labels.shape[3]
    return [PatternDecoder(view.under(intent), "relevance") for intent in range(intents)]


def list_likelihoods(
    decoder: PatternDecoder, shortlist: int, sweeps: int
) -> Iterator[tuple[Ints, int, Floats]]:
    """Messages, number of the list, and log likelihoods of its click patterns (rows, 2^k), for each list.

    Where messages have several lists, a joint search finds the clicks on the others; without sweeps they are
    the rounded relaxed solution.
    """
    view = decoder.view
    if view.kind == "clicks":
        yield from _arrived(decoder)
        return
    clicks = np.zeros(view.shown.shape, np.bool_)
    if view.is_document.any(axis=2).sum(axis=1).max(initial=0) > 1:
        clicks = joint_clicks(decoder, shortlist, sweeps)
    for rows in decoder.chunks():
        path = decoder.replay.paths(rows, clicks[rows])
        for b in range(view.shown.shape[1]):
            yield rows, b, decoder.likelihoods(rows, b, path[b], path[-1] - path[b + 1])


def _arrived(decoder: PatternDecoder) -> Iterator[tuple[Ints, int, Floats]]:
    """As `list_likelihoods`, for clicks that arrived in clear."""
    n, B, k = decoder.view.shown.shape
    clicks = (decoder.view.messages[:, : B * k].reshape(n, B, k) > 0.5) & decoder.view.is_document
    patterns = clicks @ (1 << np.arange(k))
    for rows in decoder.chunks():
        for b in range(B):
            seen = patterns[rows, b, np.newaxis] == np.arange(1 << k)
            yield rows, b, decoder.before_reports(np.where(seen, 0.0, -np.inf), rows, b)


def above_best(evidence: Floats) -> Floats:
    """Log likelihoods (n, I) with 0 for the best; 0 for all if none explains a message."""
    top = evidence.max(axis=1, keepdims=True, initial=-np.inf)
    known = np.isfinite(top)
    return np.where(known, evidence - np.where(known, top, 0.0), 0.0)


def posteriors(likely: Floats, prior: Floats | float = 1.0) -> Floats:
    """Posterior (n, I) from log likelihoods (n, I) and a prior, (I,) or uniform.

    It equals the prior where no intent explains a message. `scipy.special.softmax` takes no prior and returns
    NaN for a row of -inf.
    """
    masses = np.exp(above_best(likely)) * prior
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))
