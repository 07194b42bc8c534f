"""Whether the lists of FOLtR-ES follow from the seeds that clients send, as the facts say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from foltr_audit.core.records.view import Knowledge, View
from foltr_audit.inference.seeded_clients import perturbed_scores
from foltr_audit.judge.fact_check.sample import MOST_MESSAGES, thinned
from foltr_audit.judge.observer import Observer
from foltr_audit.trace import Trace
from foltr_audit.utils.arrays import Bools
from foltr_audit.utils.seed_generators import PERTURBATIONS

LEAST_DOCUMENTS = 4
"""Shorter lists are in the right order by chance too often."""

_ROUNDING = 1e-5  # of a list's largest score: clients compute in single precision


def why_no_seed_check(known: Knowledge) -> str | None:
    """Why it cannot be checked that lists follow from seeds, or None."""
    missing = [name for name in ("sigma", "perturbation") if not known.has(name)]
    if missing:
        return f"the header does not say {', '.join(missing)}, from which the lists would follow"
    if known.lists != "deterministic":
        return f"lists of kind es are checked where they are deterministic, not {known.lists}"
    return None


def explained_by_seeds(trace: Trace, observer: Observer) -> dict[str, Bools]:
    """Which messages have lists in the order that their seed makes, by generator, bool (messages,).

    Args:
        trace: of kind `es`.
        observer: who sees it, with the data set if features are not embedded.

    Raises:
        TraceError: a part that is damaged, or a number that is not finite.
    """
    found: dict[str, list[Bools]] = {name: [] for name in PERTURBATIONS}
    each = -(-MOST_MESSAGES // max(1, trace.n_rounds))
    for view in _views(trace, observer):
        for name, parts in found.items():
            known = view.knowledge.having(perturbation=name)
            parts.append(_explained(replace(view, knowledge=known))[:each])
    return {name: np.concatenate([np.zeros(0, np.bool_), *parts]) for name, parts in found.items()}


def _views(trace: Trace, observer: Observer) -> Iterator[View]:
    """The first messages of some rounds, evenly over the trace."""
    for record in thinned(trace).rounds():
        first = next(observer.views(record), None)
        if first is not None:
            yield first.view.trimmed()


def _explained(view: View) -> Bools:
    """Which messages with lists of enough documents have all of these in order of their scores."""
    lengths = view.is_document.sum(axis=2)
    long = lengths >= LEAST_DOCUMENTS
    scores = np.where(view.is_document, perturbed_scores(view), -np.inf)
    room = _ROUNDING * np.abs(np.where(view.is_document, scores, 0.0)).max(axis=2, initial=0.0)
    after = np.where(view.is_document[:, :, 1:], scores[:, :, 1:], -np.inf)
    falling = np.all(after <= scores[:, :, :-1] + room[..., np.newaxis], axis=2)
    return np.asarray((falling | ~long).all(axis=1)[long.any(axis=1)])
