"""Rounds as a client sees them: how the global model has changed, next to all lists.

Most rules of a server mix the updates of a cohort. Some publish the update of one client, as Krum does.
Whether they do shows in the change itself: it is a combination of the documents of that client's lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.defense import stages_of
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.round_context import SECOND_TOTAL, SUBTRACTED, TARGET
from foltr_audit.core.records.view import View
from foltr_audit.errors import UsageError
from foltr_audit.inference.joint_search import JointSearch
from foltr_audit.inference.linear_systems import least_squares, roundings, with_model_column
from foltr_audit.inference.pattern_decoder import PatternDecoder, why_too_long
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.judge.observer import Observer, readable
from foltr_audit.judge.pieces import with_messages
from foltr_audit.judge.round_sums import RoundSums, SummedRound, added_up, is_read, weight_in_sum
from foltr_audit.utils.arrays import Floats, Ints

_POOLED = 8  # documents per parameter whose span is compared with that of one client's documents
_MOST_SEARCHED = 128  # lists whose clicks are searched, a client at a time
_SHORTLIST, _SWEEPS = 32, 12  # of this search
_NEEDED = frozenset({"features", "shown", "query"})  # without these nobody's lists can be tried


def owners(record: RoundRecord, observer: Observer, *, one: bool) -> Ints:
    """The clients whose lists explain a change up to rounding, the one that explains it best first.

    A change that is one client's update is a combination of the documents of that client's lists. Where all
    documents of its lists span as much as those of everybody, and where several clients explain the change,
    the clicks that explain it best are searched for each.

    All messages of the round are the change. With `one` it is certainly the update of one client, whom noise
    may hide. The places of messages are int64; none if no client's lists explain the change, or if any would.
    """
    if _NEEDED & observer.hidden:
        return np.empty(0, dtype=np.int64)
    distances = np.concatenate(_distances([each.view for each in observer.views(record)]))
    fitting = np.flatnonzero(np.isfinite(distances) & record.survivors)
    if fitting.size == 1:
        return fitting
    tried = fitting if fitting.size else np.flatnonzero(record.survivors)
    best = _searched(record, observer, tried, one=one)
    if best.size:
        return np.concatenate([best, fitting[~np.isin(fitting, best)]])
    return fitting[np.argsort(distances[fitting], kind="stable")]


def _searched(record: RoundRecord, observer: Observer, tried: Ints, *, one: bool) -> Ints:
    """Those of some clients whose clicks explain the change, the most probable first; with `one` only it."""
    here, rows = with_messages(record, tried)
    if rows.size > _MOST_SEARCHED:
        return tried[:0]
    surprises = np.concatenate([_surprises(each.view, sure=not one) for each in observer.views(here)])
    order = np.argsort(surprises, kind="stable")
    found = tried[order[np.isfinite(surprises[order])]]
    return np.asarray(found[:1] if one else found)


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


def _surprises(view: View, *, sure: bool) -> Floats:
    """-log probability of the best clicks behind each message (n,).

    Infinite where nothing can be searched, and with `sure` where all clicks leave more than noise would.
    """
    found, known = np.full(len(view), np.inf), view.knowledge
    if known.client_step is not None or not all(known.has(name) for name in NEEDS):
        return found
    if why_no_replay(view) is not None or why_too_long(view) is not None:
        return found
    search = JointSearch(PatternDecoder(view.trimmed(), "position"), _SHORTLIST, _SWEEPS)
    if sure and not np.isfinite(search.decoder.usual_fit):
        return found
    for each in search.found():
        found[each.best.message] = np.where(each.lost & sure, np.inf, -each.best.value)
    return found


def _centred(view: View) -> Floats:
    """Columns of documents (n, P, B k) minus their mean in each list, and the model's if a clip acts.

    PDGD pushes a list's documents apart in pairs, so that their weights add up to 0.
    """
    columns = with_model_column(view)[:, :, : None if view.knowledge.clip is not None else -1]
    if view.knowledge.client_step is not None:
        return columns
    n, B, k = view.shown.shape
    size = np.maximum(1, view.is_document.sum(axis=2))[..., np.newaxis, np.newaxis]
    mean = view.jacobian.sum(axis=2, keepdims=True) / size
    centred = np.where(view.is_document[..., np.newaxis], view.jacobian - mean, 0.0)
    documents = centred.reshape(n, B * k, -1).transpose(0, 2, 1)
    return np.concatenate([documents, columns[:, :, B * k :]], axis=2)


def as_messages(record: RoundRecord, change: Floats, *, model: bool) -> RoundRecord:
    """A round in which every client sent the same change (P,) of the global model."""
    sent = record.parameters + change if model else change
    everyone = np.tile(sent, (record.n_messages, 1))
    return replace(record, messages=everyone, total=None, seeds=None, sizes=None)


_OF_SERVERS = frozenset({TARGET, SUBTRACTED, SECOND_TOTAL})  # facts that clients do not know


@dataclass(frozen=True, kw_only=True)
class SingledOut:
    """How often the change of the global model is told to be the update of one client.

    Attributes:
        rounds, unchanged: rounds in which the global model changed, and in which it did not.
        singled_out: rounds in which the lists of one client explain the change up to rounding.
        several: of these, rounds in which those of more than one do; the best fit is taken.
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

    A change that the lists of one client explain up to rounding is read as that client's update, and only its
    lists are kept. Any other change is read as the mean of as many updates as the server's rule averages, and
    of all where that is not known. The observer tries the lists.
    """

    observer: Observer
    _found: dict[int, tuple[RoundRecord | None, SingledOut]] = field(default_factory=dict)

    @property
    def tally(self) -> SingledOut:
        return sum((tally for _, tally in self._found.values()), SingledOut())

    def _read(self, record: RoundRecord) -> RoundRecord | None:
        if record.round not in self._found:
            self._found[record.round] = self._choose(record)
        return self._found[record.round][0]

    def _choose(self, record: RoundRecord) -> tuple[RoundRecord | None, SingledOut]:
        own = {name: value for name, value in record.facts.items() if name not in _OF_SERVERS}
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
        sent = as_messages(record, change, model=self.header.content == "model")
        found = owners(sent, self.observer, one=self._averaged(record) == 1)
        tally = SingledOut(
            rounds=1,
            singled_out=int(found.size > 0),
            several=int(found.size > 1),
            right=int(np.isin(found[:1], senders).sum()),
            published=int(senders.size > 0),
        )
        return (replace(record, facts={**own, TARGET: int(found[0])}) if found.size else record), tally

    def _senders(self, record: RoundRecord) -> Ints:
        """The messages after which the global model is what one client sent."""
        start = record.parameters if self.source.header.content == "update" else 0.0
        same = (start + readable(record, self.source.header) == record.aggregate).all(axis=1)
        return np.flatnonzero(same & record.survivors)

    def _averaged(self, record: RoundRecord) -> int:
        """How many of the messages that arrived the change is the mean of, as far as the rule is known."""
        arrived = averaged = int(record.survivors.sum())
        chain = self.source.header.knowledge.get("defense")
        for text in chain if isinstance(chain, list) else ():
            defense = make_if_known(Defense, str(text))
            if defense is not None and "aggregate" in stages_of(defense):
                averaged = min(averaged, defense.averaged(arrived))
        return averaged

    def _sum(self, record: RoundRecord) -> SummedRound:
        target, change = record.facts.get(TARGET), record.aggregate - record.parameters
        if target is None:
            counts = record.counts[record.survivors]
            # A client that is left out of the mean is as one without a click.
            mixed = self._averaged(record) / counts.size
            return added_up(record, self.header, mixed * counts.sum() * change, "view client")
        change = weight_in_sum(record) * change
        return replace(added_up(record, self.header, change, "view client"), clients=1)
