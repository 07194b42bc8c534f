"""Rounds as a client sees them: how the global model has changed, next to all lists.

Most rules of a server mix the updates of a cohort. Some publish the update of one client, as Krum does.
Whether they do shows in the change itself: it is a combination of the documents of that client's lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.defense import stages_of
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.records.broadcast import SECOND_TOTAL, SUBTRACTED, TARGET
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import UsageError
from foltr_audit.judge.change_owner import as_messages, owners
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.round_sums import RoundSums, SummedRound, SumObserver, added_up, is_read
from foltr_audit.judge.view_builder import readable
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Ints
from foltr_audit.utils.rows import ResultRow

_OF_SERVERS = frozenset({TARGET, SUBTRACTED, SECOND_TOTAL})  # facts that clients do not know


@dataclass(frozen=True, kw_only=True)
class SingledOut(ResultRow):
    """How often the change of the global model is told to be the update of one client.

    Attributes:
        rounds: rounds in which the global model changed.
        unchanged: further rounds, in which it did not.
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
    of all where that is not known.

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
        change = max(1, int(record.counts[int(str(target))])) * change
        return replace(added_up(record, self.header, change, "view client"), clients=1)


def seen_as_published(store: RoundStore, observer: Observer) -> tuple[PublishedModels, SumObserver]:
    """The changes of the global model, and who sees those and knows what an observer of the messages does."""
    header = RoundSums(store).header
    seen = SumObserver(header, observer.collection, observer.hidden, observer.client_step)
    return PublishedModels(store, replace(observer, header=header)), seen
