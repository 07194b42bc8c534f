"""What a server believes about clicks: the click model, and which grades its ranker shows at each position.

The belief is learnt from the training split, whose relevance labels a search engine has: the server ranks its
queries with the global model and counts grades by position.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.click_belief import ClickBelief
from foltr_audit.errors import FoltrAuditError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints

_UNSEEN = 0.5  # counts of every grade before the first list, so that no grade is impossible

_last: WeakKeyDictionary[Collection, tuple[tuple[str, bytes, bool, int], Floats]] = WeakKeyDictionary()
"""The last grades by position counted in each data set. Counting ranks the whole training split; click
models, observers, and repetitions of fresh clients share it. Weak keys do not keep a data set alive."""


def click_belief(
    collection: Collection, ranker: str, parameters: Floats, click_model: str | None, lists: str | None
) -> ClickBelief | None:
    """The belief of a server with this global model (P,); None where the click model is no cascade."""
    if click_model is None:
        return None
    try:
        model = make(ClickModel, click_model)
        if not isinstance(model, CascadeClickModel):
            return None
        click, stop = model.setting(collection.largest_label)
    except FoltrAuditError:  # a click model of another system, or no published setting
        return None
    sampled = lists not in ("deterministic", "interleaved")
    key = (ranker, parameters.tobytes(), sampled, len(click))
    if collection not in _last or _last[collection][0] != key:
        _last[collection] = key, _count_grades(collection.train, ranker, parameters, len(click), sampled)
    return ClickBelief(click=np.array(click), stop=np.array(stop), grades=_last[collection][1])


def _count_grades(train: Dataset, ranker: str, parameters: Floats, grades: int, sampled: bool) -> Floats:
    """P(grade | position) for G grades, float64 (k, G)."""
    labels = train.shown_labels(np.arange(train.n_queries), _shown(train, ranker, parameters, sampled))
    counts = np.stack([(labels == grade).sum(axis=0) for grade in range(grades)], axis=1) + _UNSEEN
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _shown(train: Dataset, ranker: str, parameters: Floats, sampled: bool) -> Ints:
    """The list of every training query under the model, int64 (queries, k)."""
    from foltr_audit.kernels.plackett_luce import sampled_lists
    from foltr_audit.kernels.ranking import top_lists

    queries = np.arange(train.n_queries)
    scores, starts = make_ranker(ranker, train.n_features).scores(parameters[np.newaxis], train, queries)
    if not sampled:
        return top_lists(scores, starts, LIST_LENGTH)
    # A fixed seed: the belief is stored under model and settings, and must not depend on which experiment
    # asked for it first.
    streams = Streams(0).clients("belief", 0, queries)
    key, purpose = np.uint64(streams.key), streams.purpose_code
    return sampled_lists(scores, starts, LIST_LENGTH, 0, streams.clients, streams.round, purpose, key)
