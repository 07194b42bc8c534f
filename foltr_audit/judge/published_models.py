"""Rounds as a client sees them: how the global model has changed, next to all lists.

Most rules of a server mix the updates of a cohort. Some publish the update of one client, as Krum does.
Whether they do shows in the change itself: it is a combination of the documents of that client's lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from foltr_audit.core.records.broadcast import TARGET
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import View
from foltr_audit.errors import UsageError
from foltr_audit.inference.joint_search import JointSearch
from foltr_audit.inference.linear_systems import least_squares, roundings, with_model_column
from foltr_audit.inference.pattern_decoder import PatternDecoder, why_too_long
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.round_sums import RoundSums, SummedRound, SumObserver, added_up, is_read
from foltr_audit.judge.view_builder import readable
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.rows import ResultRow

_POOLED = 8  # documents per parameter whose span is compared with that of one client's documents
_MOST_SEARCHED = 16  # clients whose clicks are searched one by one
_SHORTLIST, _SWEEPS = 32, 12  # of this search
_NEEDED = frozenset({"features", "shown", "query"})  # without these nobody's lists can be tried


@dataclass(frozen=True, kw_only=True)
class SingledOut(ResultRow):
    """How often the change of the global model is told to be the update of one client.

    Attributes:
        rounds: rounds in which the global model changed.
        unchanged: further rounds, in which it did not.
        singled_out: rounds in which the change fits the lists of one client up to rounding.
        several: of these, rounds in which it fits the lists of more than one; the best fit is taken.
        right: of these, rounds in which it is that client's message.
        published: rounds in which it is the message of any client.
    """

    rounds: int = 0
    unchanged: int = 0
    singled_out: int = 0
    several: int = 0
    right: int = 0
    published: int = 0

    def __add__(self, other: SingledOut) -> SingledOut:
        return SingledOut(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass(frozen=True, eq=False)
class PublishedModels(RoundSums):
    """The rounds of a store as changes of the global model; rounds without any are left out.

    A change that fits the lists of one client up to rounding is read as that client's update, and only its
    lists are kept. Any other change is read as the mean of the updates that arrived.

    Attributes:
        observer: who tries the lists.
    """

    observer: Observer
    _found: dict[int, tuple[RoundRecord | None, SingledOut]] = field(default_factory=dict)

    @property
    def tally(self) -> SingledOut:
        """Of all rounds that were read."""
        return sum((tally for _, tally in self._found.values()), SingledOut())

    def _read(self, record: RoundRecord) -> RoundRecord | None:
        if record.round not in self._found:
            self._found[record.round] = self._choose(record)
        return self._found[record.round][0]

    def _choose(self, record: RoundRecord) -> tuple[RoundRecord | None, SingledOut]:
        own = {name: value for name, value in record.facts.items() if name != TARGET}
        record = replace(record, facts=own)
        if not is_read(record):
            return None, SingledOut()
        if not self.source.header.holds_models or not np.isfinite(record.aggregate).all():
            raise UsageError(
                f"view client: round {record.round}: expected models or updates, and the model after it"
            )
        change = record.aggregate - record.parameters
        if not change.any():
            return None, SingledOut(unchanged=1)
        senders = self._senders(record)
        fits, best = self._fits(record, change)
        tally = SingledOut(
            rounds=1,
            singled_out=int(fits > 0),
            several=int(fits > 1),
            right=int(fits > 0 and best in senders),
            published=int(senders.size > 0),
        )
        return (replace(record, facts={**own, TARGET: best}) if fits else record), tally

    def _senders(self, record: RoundRecord) -> Ints:
        """The messages after which the global model is what one client sent."""
        start = record.parameters if self.source.header.content == "update" else 0.0
        same = (start + readable(record, self.source.header) == record.aggregate).all(axis=1)
        return np.flatnonzero(same & record.survivors)

    def _fits(self, record: RoundRecord, change: Floats) -> tuple[int, int]:
        """How many clients' lists explain a change (P,) up to rounding, and whose explain it best."""
        if _NEEDED & self.observer.hidden:
            return 0, -1
        start = record.parameters if self.header.content == "model" else 0.0
        everyone = np.tile(start + change, (record.n_messages, 1))
        each = replace(record, messages=everyone, total=None, seeds=None, sizes=None)
        seen = [one.view for one in self.observer.views(each)]
        distances = np.concatenate(_distances(seen))
        if not np.isfinite(distances[record.survivors]).any() and record.survivors.sum() <= _MOST_SEARCHED:
            distances = np.concatenate([_surprises(view) for view in seen])
        distances = np.where(record.survivors, distances, np.inf)
        return int(np.isfinite(distances).sum()), int(distances.argmin())

    def _sum(self, record: RoundRecord) -> SummedRound:
        target, change = record.facts.get(TARGET), record.aggregate - record.parameters
        if target is None:
            change = record.counts[record.survivors].sum() * change
            return added_up(record, self.header, change, "view client")
        change = max(1, int(record.counts[int(str(target))])) * change
        return replace(added_up(record, self.header, change, "view client"), clients=1)


def _distances(views: Sequence[View]) -> list[Floats]:
    """Distance of each message (n,) of some views from the documents of its lists.

    It is infinite where rounding does not explain it, and where the lists tell nothing: their documents span
    all that the documents of the round span.
    """
    columns = [_centred(view) for view in views]
    pooled = np.concatenate([each.transpose(1, 0, 2).reshape(each.shape[1], -1) for each in columns], axis=1)
    dimensions = np.linalg.matrix_rank(pooled[:, : _POOLED * len(pooled)])
    found = []
    for view, each in zip(views, columns, strict=True):
        fit = least_squares(each, view.click_updates, roundings(view), view.feature_resolution)
        left = np.linalg.norm(view.click_updates - np.einsum("npm,nm->np", each, fit.weights), axis=1)
        fits = ~fit.noisy & (np.linalg.matrix_rank(each) < dimensions) & view.is_document.any(axis=(1, 2))
        found.append(np.where(fits, left, np.inf))
    return found


def _surprises(view: View) -> Floats:
    """-log probability of the best clicks behind each message (n,), infinite where they do not explain it."""
    found = np.full(len(view), np.inf)
    if view.knowledge.client_step is not None or not all(view.knowledge.has(name) for name in NEEDS):
        return found
    if why_no_replay(view) is not None or why_too_long(view) is not None:
        return found
    seen = view.trimmed()
    search = JointSearch(PatternDecoder(seen, "position"), _SHORTLIST, _SWEEPS)
    if not np.isfinite(search.decoder.usual_fit):
        return found
    for one in search.found():
        found[one.best.message] = np.where(one.lost, np.inf, -one.best.value)
    return found


def _centred(view: View) -> Floats:
    """Columns of documents (n, P, B k) minus their mean in each list, and the model's if a clip acts."""
    columns = with_model_column(view)[:, :, : None if view.knowledge.clip is not None else -1]
    if view.knowledge.client_step is not None:
        return columns
    n, B, k = view.shown.shape
    lists = view.jacobian
    size = np.maximum(1, view.is_document.sum(axis=2))[..., np.newaxis, np.newaxis]
    mean = lists.sum(axis=2, keepdims=True) / size
    centred = np.where(view.is_document[..., np.newaxis], lists - mean, 0.0)
    documents = centred.reshape(n, B * k, -1).transpose(0, 2, 1)
    return np.concatenate([documents, columns[:, :, B * k :]], axis=2)


def seen_as_published(store: RoundStore, observer: Observer) -> tuple[PublishedModels, SumObserver]:
    """The changes of the global model, and who sees those and knows what an observer of the messages does."""
    header = RoundSums(store).header
    seen = SumObserver(header, observer.collection, observer.hidden, observer.client_step)
    return PublishedModels(store, replace(observer, header=header)), seen
