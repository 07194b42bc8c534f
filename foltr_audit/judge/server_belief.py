"""What a server believes about clicks: the click model, and which grades its ranker shows at each position.

The belief is learnt from the training part, whose relevance labels a search engine has: the server ranks its
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

_Key = tuple[str, bytes, str | None, str | None]

_UNSEEN = 0.5  # counts of every grade before the first list, so that no grade is impossible

_last: WeakKeyDictionary[Collection, tuple[_Key, ClickBelief | None]] = WeakKeyDictionary()
"""The last belief learnt from each data set. Learning ranks the whole training part; the observers of a round
and the repetitions of fresh clients share it. Weak keys do not keep a data set alive."""


def click_belief(
    collection: Collection, ranker: str, parameters: Floats, click_model: str | None, lists: str | None
) -> ClickBelief | None:
    """The belief of a server with this global model (P,); None where the click model is no cascade."""
    key = (ranker, parameters.tobytes(), click_model, lists)
    if collection not in _last or _last[collection][0] != key:
        _last[collection] = key, _learn(collection, ranker, parameters, click_model, lists)
    return _last[collection][1]


def _learn(
    collection: Collection, ranker: str, parameters: Floats, click_model: str | None, lists: str | None
) -> ClickBelief | None:
    if click_model is None:
        return None
    try:
        model = make(ClickModel, click_model)
        if not isinstance(model, CascadeClickModel):
            return None
        click, stop = model.setting(collection.largest_label)
    except FoltrAuditError:  # a click model of another system, or no published setting
        return None
    train = collection.train
    shown = _shown(train, ranker, parameters, sampled=lists not in ("deterministic", "interleaved"))
    labels = train.shown_labels(np.arange(train.n_queries), shown)
    counts = np.stack([(labels == grade).sum(axis=0) for grade in range(len(click))], axis=1) + _UNSEEN
    return ClickBelief(
        click=np.array(click), stop=np.array(stop), grades=counts / counts.sum(axis=1, keepdims=True)
    )


def _shown(train: Dataset, ranker: str, parameters: Floats, *, sampled: bool) -> Ints:
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
