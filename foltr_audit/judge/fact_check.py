"""Whether the facts that a trace declares, and its true clicks, explain its messages: a sample is replayed.

For the right clicks the declared step reproduces the numbers of a message that noise has not changed, up to
rounding. If not even the best of all click patterns does, a fact is wrong; no truth is needed for this. Where
the true clicks of a message do not reproduce it, and other clicks on the same lists do, its truth is that of
another message. Where no clicks do, a fact may be wrong as well, and nothing is said about the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self, TypeVar

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import STEP_FACTS, View
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.inference.joint_search import joint_clicks
from foltr_audit.inference.pattern_decoder import PatternDecoder, patterns_as_clicks, why_too_long
from foltr_audit.inference.replay import NEEDS, replay_of, why_no_replay, why_no_step_replay
from foltr_audit.inference.seeded_clients import perturbed_scores
from foltr_audit.judge.observer import InteractionPlacement, Observer, knowledge_of, with_lists
from foltr_audit.judge.pieces import with_messages
from foltr_audit.judge.round_sums import isolated_client, not_subtracted
from foltr_audit.privacy.accounting.walk import CHANGES_MESSAGES
from foltr_audit.privacy.noise import AdditiveNoise, parse_law
from foltr_audit.rng import Streams
from foltr_audit.trace import Trace, TraceHeader
from foltr_audit.trace.declared_header import NoiseDeclaration
from foltr_audit.trace.header import ChainAction
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.reading import is_whole

GOOD = 0.8  # measured: right facts explain all messages, wrong ones at most .57 of them
FEWEST = 3  # messages that a verdict needs
LEAST_DOCUMENTS = 4
"""Shorter lists are in the order of seeds by chance too often."""

_MOST_PARTS = 10  # of a trace, spread evenly over all of them
_SINGLE_PRECISION = 1e-5  # of a list's largest score: clients of FOLtR-ES may compute in it
_RELATIVE = 1e-4  # of the usual size of an update: numbers closer than this count as equal
_MOVED = 8.0  # tolerances that a number must exceed to count as moved
_SPARE = 0.2  # share of the numbers that sparse noise must leave nearly unchanged
_USUAL = 0.75  # of the noise that a tolerance for dense noise covers
_LEAST = 4  # numbers that must be reproduced at least on average
_LEAST_DENSE = 8  # numbers that must stand out of dense noise
_STANDS_OUT = 5.0  # times as many numbers must stand out as noise alone would make

Q = TypeVar("Q")


# --- what counts as explained ----------------------------------------------------------------------


@dataclass(frozen=True)
class ExplanationThreshold:
    """What counts as an explained message.

    A share of the moved numbers must be reproduced, up to a size of noise; `least` numbers, and more than
    noise alone moves, must have moved for a message to count. `size` is the usual one of an update's numbers.
    """

    size: float
    noise: float = 0.0
    share: float = 0.5
    least: int = _LEAST
    by_noise: float = 0.0

    @classmethod
    def of(cls, views: Sequence[View]) -> Self | None:
        """What counts as explained under the declared noise; None: noise hides all.

        Where noise leaves a fifth of the numbers nearly unchanged, these decide. Otherwise a tolerance covers
        three quarters of the noise, and only numbers count that are four times as large.
        """
        size = float(np.median(np.concatenate([usual_size(view) for view in views])))
        stated, P = views[0].knowledge.noise, views[0].parameters.shape[1]
        law = None if stated in (None, "none") else parse_law(str(stated))
        within = None if law is None else law.probability_within(_RELATIVE * size)
        if law is None or within is None:
            return cls(size)
        untouched = float(within)
        if untouched >= _SPARE:
            least = int(np.ceil(_LEAST / untouched))
            return cls(size, share=untouched / 2, least=least, by_noise=_most_moved(1 - untouched, P))
        noise = _usual_noise(law, size)
        if noise is None:
            return None
        outside = 1.0 - float(law.probability_within(4.0 * noise) or 0.0)
        standing = np.concatenate([np.abs(view.updates).reshape(-1) > 4.0 * noise for view in views])
        if standing.mean() <= _STANDS_OUT * outside:
            return None
        return cls(size, noise=noise, least=_LEAST_DENSE, by_noise=_most_moved(outside, P))


def usual_size(view: View) -> Floats:
    """The median size of each update's numbers that are not 0, (n,)."""
    sizes = np.abs(view.updates)
    known = np.where(sizes > 0, sizes, np.nan)
    known[~(sizes > 0).any(axis=1)] = 0.0
    return np.asarray(np.nanmedian(known, axis=1))


def _most_moved(probability: float, P: int) -> float:
    """The most of P numbers that noise moves: the mean and three standard deviations."""
    probability = min(max(probability, 0.0), 1.0)
    return float(P * probability + 3.0 * np.sqrt(P * probability * (1.0 - probability)))


def _usual_noise(law: AdditiveNoise, size: float) -> float | None:
    """The size that three quarters of the noise are within, if it is below the usual size of an update."""
    sizes = size * np.geomspace(_RELATIVE, 1.0, 200)
    inside = law.probability_within(sizes)
    if inside is None or not np.any(inside >= _USUAL):
        return None
    return float(sizes[np.argmax(inside >= _USUAL)])


class UpdateComparison:
    """The updates of a view's n messages next to those that replays make of clicks.

    Attributes:
        near: how near a number must come to count as reproduced, (n, P); `step` more of a replay's largest.
        moved: numbers far enough from 0 to count, (n, P).
        enough: more of them than this must be reproduced, (n,).
        counts: messages of which enough numbers moved, (n,).
    """

    def __init__(self, view: View, threshold: ExplanationThreshold) -> None:
        """A tolerance for rounding, features' included, and for noise."""
        resolution = max(view.knowledge.resolution, view.feature_resolution)
        values = 4.0 * resolution * (np.abs(view.messages) + np.abs(view.parameters))
        usual = np.maximum(usual_size(view), 0.1 * threshold.size)[:, np.newaxis]
        self.updates, self.step = view.updates, 8.0 * resolution
        self.near = _RELATIVE * usual + values + threshold.noise
        far = 4.0 * threshold.noise if threshold.noise else _MOVED * self.near
        self.moved = np.abs(self.updates) > far
        moved = self.moved.sum(axis=1)
        self.enough = threshold.share * moved
        self.counts = (moved >= threshold.least) & (moved > threshold.by_noise)

    def reproduced(self, replayed: Floats, times: float = 1.0, row: int | None = None) -> Bools:
        """Which numbers replayed updates (n, P) come near; of one message, for each of (H, P)."""
        rows = slice(None) if row is None else row
        slack = self.step * np.abs(replayed).max(axis=1, initial=0.0, keepdims=True)
        return np.asarray(np.abs(self.updates[rows] - replayed) <= times * (self.near[rows] + slack))

    def explained_by(self, replayed: Floats, times: float = 1.0) -> Bools:
        """Which messages updates (n, P) explain, (n,)."""
        return np.asarray((self.reproduced(replayed, times) & self.moved).sum(axis=1) > self.enough)


def _sampled(
    trace: Trace, rounds: Iterable[Q], most: int, wanted: Callable[[Q], Ints]
) -> Iterator[tuple[Q, Ints]]:
    """At most so many messages of rounds spread evenly over a trace, by a fixed stream among those wanted.

    Each round that has some, with their places in rising order.
    """
    every = -(-trace.n_rounds // most)
    quota, left = -(-most * every // max(1, trace.n_rounds)), most
    for number, each in enumerate(rounds):
        slots = wanted(each)
        if number % every == 0 and slots.size and left:
            draws = Streams(0).generator(f"sample/{number}")
            chosen = np.sort(draws.permutation(slots)[: min(quota, left)])
            left -= chosen.size
            yield each, chosen


def _thinned(trace: Trace) -> Trace:
    """A trace of few parts, spread evenly over all of them."""
    if len(trace.parts) <= _MOST_PARTS:
        return trace
    chosen = np.linspace(0, len(trace.parts) - 1, _MOST_PARTS).astype(np.int64)
    return replace(trace, parts=tuple(trace.parts[index] for index in chosen.tolist()))


# --- why nothing can be told -----------------------------------------------------------------------

_BOUNDS = ("bounded:of=model", "clip:")
_BALLS = (*_BOUNDS, "resized:of=model")  # acts that `clip_norm` and `clip_ord` describe


def _changing_act(header: TraceHeader) -> str | None:
    """Which defense may change messages beyond the declared step and clip; then they prove nothing."""
    acts = NoiseDeclaration.of(header).acts or ()
    one_ball = len({act.text for act in acts if act.text.startswith(_BOUNDS)}) == 1
    for act in acts:
        ball = one_ball and "clip_norm" in header.knowledge and act.text.startswith(_BALLS)
        if act.kind in CHANGES_MESSAGES and not ball:
            return f"{act.text} may change messages"
    return None


def _unknown_noise(header: TraceHeader) -> str | None:
    """Why noise may hide how well messages are explained, or None."""
    stated = header.knowledge.get("noise")
    if stated == "none" or (isinstance(stated, str) and parse_law(stated) is not None):
        return None
    declared = NoiseDeclaration.of(header)
    if declared.is_none:
        return None
    noise = declared.text
    return "the header does not say what noise there is" if noise is None else f"noise {noise} is not known"


def _why_no_steps(header: TraceHeader, *, own_step: bool) -> str | None:
    """Why no step of the clients of a trace can be computed, whatever its messages are."""
    if not header.holds_models:
        return f"messages of kind {header.kind} are no steps of PDGD"
    missing = [name for name in ("learning_rate", "pairs", "normaliser") if name not in header.knowledge]
    return f"the header does not say {', '.join(missing)}" if missing and not own_step else None


def _why_unknown_step(view: View) -> str | None:
    own_step = view.knowledge.client_step is not None
    needs = NEEDS - STEP_FACTS if own_step else NEEDS
    missing = sorted(name for name in needs if not view.knowledge.has(name))
    if missing:
        return f"the observer does not know: {', '.join(missing)}"
    if own_step:
        return None
    if view.knowledge.normaliser == "candidates" and view.candidates is None:
        return "PDGD normalises over all candidates, which the trace does not hold; give the data with --data"
    return why_no_replay(view)


_MASKED = "messages are masked"
_HIDDEN_BY_NOISE = "noise of the declared law is larger than the updates"


# --- the facts -------------------------------------------------------------------------------------

State = Literal["explained", "wrong", "cannot tell", "not checked"]

_LONGEST = 14  # documents of a list: 2^14 click patterns for each message
_MOST_MESSAGES = 200
_MOST_OWN_STEPS = 40  # a step of the user's may take milliseconds for each click pattern


@dataclass(frozen=True)
class FactCheck:
    """How large a share of the examined messages the declared facts explain under the best clicks.

    The reason says why the check has no answer, or was not made; for explained and wrong facts what else was
    noticed. Contradictions are those of the counts of messages.
    """

    state: State
    reason: str | None = None
    messages: int = 0
    explained: float | None = None
    contradictions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line that says all but the contradictions."""
        if self.state in ("not checked", "cannot tell"):
            return f"declared facts: {self.state}: {self.reason}"
        line = f"declared facts explain {_percent(self.explained or 0.0)} of {self.messages} messages"
        return line if self.reason is None else f"{line}; {self.reason}"

    @property
    def warnings(self) -> tuple[str, ...]:
        odd = self.state == "wrong" or (self.state == "explained" and self.reason is not None)
        return (*((self.text,) if odd else ()), *self.contradictions)

    def table(self) -> dict[str, object]:
        return {
            "state": self.state,
            "wrong": self.state == "wrong" or bool(self.contradictions),
            "reason": self.reason,
            "messages": self.messages,
            "explained": self.explained,
            "contradictions": list(self.contradictions),
            "text": self.text,
            "warnings": list(self.warnings),
        }


def check_facts(trace: Trace, observer: Observer) -> FactCheck:
    """Compare the facts of a trace with a sample of its messages, as its observer sees them."""
    observer = replace(observer, hidden=frozenset())
    if trace.header.kind == "es":
        return _check_seeds(trace, observer)
    own_step = observer.client_step is not None
    reason = _MASKED if trace.header.kind == "masked" else _why_no_steps(trace.header, own_step=own_step)
    if reason:
        return FactCheck("not checked", reason)
    sample = _MessageSample(trace, observer, _MOST_OWN_STEPS if own_step else _MOST_MESSAGES)
    reason = sample.why_not()
    check = FactCheck("not checked", reason) if reason else _check_facts_of(trace.header, sample.views)
    return replace(check, contradictions=tuple(sample.contradictions))


class _MessageSample:
    """Messages of a trace with one list each that changed the model, as views.

    Also the numbers of lists of all messages, how many of one list do not differ from the global model, and
    what the counts of a round contradict.
    """

    def __init__(self, trace: Trace, observer: Observer, most: int) -> None:
        self.header = trace.header
        self.lists: set[int] = set()
        self.contradictions: list[str] = []
        self.views: list[View] = []
        self.silent = 0
        trace = _thinned(trace)
        for record, chosen in _sampled(trace, trace.rounds(), most, self._wanted):
            known = np.isfinite(record.aggregate)
            if known.any() and not known.all():
                raise TraceError(f"trace: round {record.round} holds a number that is not finite")
            seen = observer.views(with_messages(record, chosen)[0])
            self.views += [each.view.trimmed() for each in seen]

    def _wanted(self, record: RoundRecord) -> Ints:
        """Messages with one list of two documents or more that differ from the global model."""
        stated = self.header.knowledge.get("interactions")
        if is_whole(stated) and record.counts_interactions and not self.contradictions:
            wrong = record.counts[record.survivors & (record.counts != stated)]
            if wrong.size:
                self.contradictions.append(
                    f"interactions is {stated}, but a message of round {record.round} counts {wrong[0]}"
                )
        if not record.n_messages:
            return np.empty(0, dtype=np.int64)
        lists = np.bincount(record.slot, minlength=record.n_messages)
        self.lists |= set(np.unique(lists[lists > 0]).tolist())
        long = np.zeros(record.n_messages, dtype=np.bool_)
        long[record.slot[record.lengths > 1]] = True
        single = (lists == 1) & long & record.survivors
        start = record.parameters if self.header.content == "model" else np.zeros(1)
        moves = np.any(record.messages.astype(np.float64) != start, axis=1)
        self.silent += int((single & ~moves).sum())
        return np.flatnonzero(single & moves)

    def why_not(self) -> str | None:
        """Why these messages are not examined, or None."""
        if not self.views:
            counts = sorted(self.lists - {1})
            if counts:
                many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
                return f"messages of {many} lists"
            if self.silent:
                return f"{self.silent} messages, none of which differs from the global model"
            return "no message with a list of two documents is recorded"
        longest = max(view.width for view in self.views)
        if longest > _LONGEST:
            return f"a list has {longest} documents; every click pattern of up to {_LONGEST} can be tried"
        return _why_unknown_step(self.views[0])


def _check_facts_of(header: TraceHeader, views: Sequence[View]) -> FactCheck:
    threshold, examined = ExplanationThreshold.of(views), sum(len(view) for view in views)
    if threshold is None:
        return FactCheck("cannot tell", _HIDDEN_BY_NOISE, examined)
    messages, share, clicked = _explained(views, threshold)
    if messages < FEWEST:
        why = f"only {messages} messages of {examined} differ enough from the global model"
        return FactCheck("cannot tell", why, messages)
    if share >= GOOD:
        reason = None
        # Clicks on the other documents may explain the opposite sign as well.
        if clicked > 0.5 and _explained(views, threshold, sign=-1)[1] >= GOOD:
            reason = (
                f"but {_percent(clicked)} of the shown documents would then be clicked, "
                f"with sign -1 {_percent(1 - clicked)}"
            )
        return FactCheck("explained", reason, messages, share)
    if doubt := _changing_act(header) or _unknown_noise(header):
        return FactCheck("cannot tell", f"few messages are explained, and {doubt}", messages, share)
    return FactCheck("wrong", _what_may_be_wrong(views[0]), messages, share)


def _explained(
    views: Sequence[View], threshold: ExplanationThreshold, sign: int = 1
) -> tuple[int, float, float]:
    """How many messages of one list count, and which share of them the step times `sign` explains.

    Each by its best clicks; last, the mean share of an explained list that they click.
    """
    messages, shares = 0, []
    for view in views:
        compared, replay = UpdateComparison(view, threshold), replay_of(view)
        messages += int(compared.counts.sum())
        for i in np.flatnonzero(compared.counts).tolist():
            most, clicked, start = 0, 0, view.parameters[i]
            for first, models in replay.patterns(i, 0, start):
                near = compared.reproduced(sign * (models - start), row=i)
                hits = near[:, compared.moved[i]].sum(axis=1)
                if hits.max() > most:
                    most, clicked = int(hits.max()), (first + int(hits.argmax())).bit_count()
            if most > compared.enough[i]:
                shares.append(clicked / max(1, int(replay.lengths[i, 0])))
    return messages, len(shares) / max(1, messages), sum(shares) / max(1, len(shares))


def _what_may_be_wrong(view: View) -> str:
    step = view.knowledge.client_step
    if step is not None:
        return f"client step {step.text} may be wrong, or chance in it, such as dropout"
    lost = view.candidates is None
    more = " (or PDGD normalises over all candidates: give the data with --data)" if lost else ""
    return (
        "check pairs, normaliser, learning_rate, clip_norm, what a message is (model or update, and its "
        f"sign), and the order of the lists{more}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _check_seeds(trace: Trace, observer: Observer) -> FactCheck:
    """Whether lists are in the order that the declared generator makes of the seeds of their messages."""
    known = knowledge_of(trace.header)
    missing = [name for name in ("sigma", "perturbation") if not known.has(name)]
    if missing:
        why = f"the header does not say {', '.join(missing)}, from which the lists would follow"
        return FactCheck("not checked", why)
    if known.lists != "deterministic":
        return FactCheck(
            "not checked", f"lists of kind es are checked where they are deterministic, not {known.lists}"
        )
    quota = -(-_MOST_MESSAGES // max(1, trace.n_rounds))
    views = [next(observer.views(record), None) for record in _thinned(trace).rounds()]
    in_order = [_follow_from_seeds(seen.view.trimmed())[:quota] for seen in views if seen is not None]
    explained = np.concatenate([np.zeros(0, dtype=np.bool_), *in_order])
    if explained.size < FEWEST:
        why = f"only {explained.size} messages have a list of {LEAST_DOCUMENTS} documents or more"
        return FactCheck("cannot tell", why, explained.size)
    share = float(explained.mean())
    if share >= GOOD:
        return FactCheck("explained", None, explained.size, share)
    why = "check perturbation, sigma, antithetic, the model and the order of the lists"
    return FactCheck("wrong", why, explained.size, share)


def _follow_from_seeds(view: View) -> Bools:
    """Which messages have lists in the order of the scores that their seed makes (FOLtR-ES).

    Bool, one for each message with a list of `LEAST_DOCUMENTS` or more.
    """
    long = view.is_document.sum(axis=2) >= LEAST_DOCUMENTS
    scores = np.where(view.is_document, perturbed_scores(view), -np.inf)
    largest = np.abs(np.where(view.is_document, scores, 0.0)).max(axis=2, initial=0.0)
    room = _SINGLE_PRECISION * largest[..., np.newaxis]
    falling = np.all(scores[:, :, 1:] <= scores[:, :, :-1] + room, axis=2)
    return np.asarray((falling | ~long).all(axis=1)[long.any(axis=1)])


# --- the truth -------------------------------------------------------------------------------------

Malicious = Callable[[Ints], Bools]
"""Which of some clients (n,) are malicious, and so send what does not follow from their clicks."""

_MOST = 64  # messages that are replayed
_MOST_SEARCHED = 12  # messages whose clicks are searched for: those of several lists take a while
_CHANCE = 1e-6 / (2 * _MOST)  # of refusing one message of the right truth, and as much for its update
_BY_ROUNDING = 8.0  # tolerances within which the true clicks reproduce a number; others within one
_BY_NOISE = 2.0  # the same where a tolerance covers most of the noise
_SHORTLIST, _SWEEPS = 32, 12  # of the search for clicks on several lists


@dataclass(frozen=True)
class TruthCheck:
    """What a check found that did not refuse the truth.

    Attributes:
        messages: how many sampled messages follow from their clicks.
        reason: why messages were not compared with their clicks; None where they were.
        doubtful: whether most sampled messages do not follow from their clicks, nor from others that were
            tried: a fact or the truth is wrong.
    """

    messages: int = 0
    reason: str | None = None
    doubtful: bool = False

    @property
    def text(self) -> str:
        """One line about the truth."""
        if self.reason is not None:
            return f"truth not checked: {self.reason}"
        return f"{self.messages} sampled messages follow from their true clicks"


class _TrueMessages(NamedTuple):
    """Some messages of a round, and the truth about them.

    Attributes:
        view: the messages, n of them.
        clicks: bool (n, B, k).
        nearby: the clicks of the rows and messages before and after, bool (S, n, B, k).
        updates: before any defense, float64 (n, P); NaN where unknown.
        round: the number of the round.
        slots: numbers of the messages in their round, int64 (n,).
    """

    view: View
    clicks: Bools
    nearby: Bools
    updates: Floats
    round: int
    slots: Ints

    def at(self, rows: Ints) -> _TrueMessages:
        """Some of the messages."""
        return _TrueMessages(
            view=with_lists(self.view, rows),
            clicks=self.clicks[rows],
            nearby=self.nearby[:, rows],
            updates=self.updates[rows],
            round=self.round,
            slots=self.slots[rows],
        )


def check_truth(trace: Trace, observer: Observer, malicious: Malicious | None = None) -> TruthCheck:
    """Compare a sample of a trace's messages with what their true clicks would send.

    The stored updates before any defense, where they are known, are compared in the same way.

    Raises:
        TraceError: messages, or these updates, follow from other clicks than the true ones.
    """
    header, own_step = trace.header, observer.client_step is not None
    acts = NoiseDeclaration.of(header).acts or ()
    lies = [act.text for act in acts if act.kind == "randomisation"]
    reason = f"{lies[0]}: clients learn from other clicks" if lies else None
    if header.kind != "clicks":
        reason = reason or _why_no_steps(header, own_step=own_step)
    if reason is not None:
        return TruthCheck(reason=reason)
    # Without a click model no view counts grades over the whole training split, for a belief about clicks.
    facts = {name: fact for name, fact in header.knowledge.items() if name != "click_model"}
    everything = replace(observer, header=replace(header, knowledge=facts), hidden=frozenset())
    sample = list(_true_messages(trace, everything, malicious))
    if not sample:
        return TruthCheck(reason="no message with recorded lists and known clicks")
    hidden = _hidden_clicks(header, acts)
    if header.kind == "clicks":
        return TruthCheck(reason=hidden) if hidden else _compare_clicks(trace, sample)
    view = sample[0].view
    if reason := _why_unknown_step(view) or (why_no_step_replay(view) if own_step else None):
        return TruthCheck(reason=reason)
    if hidden is None:
        _compare(trace, list(_undefended(header, sample)), "truth/messages")
    if header.kind == "masked":
        return TruthCheck(reason=_MASKED)
    doubt = hidden or _changing_act(header) or _unknown_noise(header)
    return _compare(trace, sample, "observed/messages", doubt, refuses=hidden is None)


def _hidden_clicks(header: TraceHeader, acts: Sequence[ChainAction]) -> str | None:
    """What may change the clicks that clients learn from without saying so, or None."""
    opaque = [act.text for act in acts if act.kind in ("opaque", "unknown")]
    if not opaque:
        return None
    names = header.knowledge.get("defense")
    try:
        chain = DefenseChain(parse_chain(names if isinstance(names, list) else [str(names)]))
        hidden = bool(chain.links("click"))
    except UsageError:
        hidden = True
    return f"{opaque[0]} may change clicks" if hidden else None


def _true_messages(trace: Trace, observer: Observer, malicious: Malicious | None) -> Iterator[_TrueMessages]:
    """At most `_MOST` messages that arrived, after the global model, and whose clicks are known."""

    def wanted(both: tuple[RoundRecord, RoundTruth]) -> Ints:
        record, truth = both
        good = not_subtracted(record) & (np.bincount(record.slot, minlength=record.n_messages) > 0)
        target = isolated_client(record)
        if target is not None:  # the others received another model
            good &= np.arange(good.size) == target
        if truth.known is not None:
            good[record.slot[~truth.known]] = False
        if malicious is not None:
            good &= ~malicious(truth.clients)
        return np.flatnonzero(good)

    trace = _thinned(trace)
    rounds = zip(trace.rounds(), trace.truths(), strict=True)
    for (record, truth), chosen in _sampled(trace, rounds, _MOST, wanted):
        mine, rows = with_messages(record, chosen)
        placement = InteractionPlacement.of(mine)
        away = sorted({-placement.shape[1], -1, 0, 1, placement.shape[1]}, key=abs)
        clicks = np.stack(
            [placement.spread(truth.clicks[(rows + rows_away) % len(truth.clicks)], 0) for rows_away in away]
        )
        for seen in observer.views(mine):
            view = seen.view if observer.header.kind == "clicks" else seen.view.trimmed()
            possible = clicks[:, seen.rows, :, : view.shown.shape[2]] & view.is_document
            slots = chosen[seen.rows]
            yield _TrueMessages(view, possible[0], possible[1:], truth.updates[slots], record.round, slots)


def _undefended(header: TraceHeader, sample: Sequence[_TrueMessages]) -> Iterator[_TrueMessages]:
    """The sample with the known updates before any defense in place of its messages.

    Of several lists with a clip between them, these are not replayed.
    """
    for each in sample:
        known = each.view.knowledge
        if each.updates.shape[1] != each.view.parameters.shape[1]:
            continue
        if each.view.shown.shape[1] > 1 and (known.clip is not None or known.update_clip is not None):
            continue
        mine = each.at(np.flatnonzero(np.isfinite(each.updates).all(axis=1)))
        known = known.having(
            noise="none", clip=None, update_clip=None, number_format=header.update_format, encoding_error=0.0
        )
        if mine.slots.size:
            view = replace(mine.view, kind="update", messages=mine.updates, knowledge=known)
            yield mine._replace(view=view)


def _compare(
    trace: Trace,
    sample: Sequence[_TrueMessages],
    table: str,
    doubt: str | None = None,
    *,
    refuses: bool = True,
) -> TruthCheck:
    """Replay the clicks of each message that counts, and search for other clicks where they miss it.

    With a `doubt`, why messages may be changed in ways that are not replayed, only clicks nearby are tried.

    Raises:
        TraceError: other clicks explain a message that its own do not.
    """
    threshold = ExplanationThreshold.of([each.view for each in sample]) if sample else None
    if threshold is None:
        return TruthCheck(reason=_HIDDEN_BY_NOISE)
    others: list[tuple[int, int]] = []
    counted, agreed, far, tried = 0, 0, 0, 0
    for each in sample:
        compared = UpdateComparison(each.view, threshold)
        agrees, cannot = _own_clicks(each, compared, _BY_NOISE if threshold.noise else _BY_ROUNDING)
        counted += int(compared.counts.sum())
        agreed += int(agrees.sum())
        far += int(cannot.sum())
        rows = np.flatnonzero(cannot)[: _MOST_SEARCHED - tried if refuses else 0]
        if rows.size:
            found = rows[_follow_from_others(each.at(rows), threshold, search=not doubt)]
            others += [(each.round, slot) for slot in each.slots[found].tolist()]
            tried += rows.size
    if counted < FEWEST:
        return TruthCheck(reason=f"only {counted} sampled messages differ enough from the global model")
    explained = agreed + far * len(others) / max(1, tried)
    if explained < GOOD * counted:
        if doubt:
            return TruthCheck(reason=doubt)
        why = f"only {explained:.0f} of {counted} sampled messages follow from true or other clicks"
        return TruthCheck(reason=f"{why}: a fact or the truth may be wrong", doubtful=2 * agreed < counted)
    if others:
        raise _of_others(trace, table, *others[0], len(others), tried + agreed)
    return TruthCheck(agreed)


def _own_clicks(sample: _TrueMessages, compared: UpdateComparison, times: float) -> tuple[Bools, Bools]:
    """Which messages that count follow from their clicks, and which cannot follow from them, (n,) each.

    They cannot but for a chance of `_CHANCE`. A message that is the opposite of its update may follow from
    it: a client may reverse it, and other clicks may have the opposite effect.
    """
    from scipy.special import bdtr

    replayed, noise = replay_of(sample.view).updates(sample.clicks), sample.view.knowledge.noise
    agrees = compared.explained_by(replayed, times)
    possible = compared.explained_by(-replayed, times)
    if noise not in (None, "none"):  # it rarely leaves so few numbers near the right ones
        law, hits = parse_law(str(noise)), compared.reproduced(replayed, times).sum(axis=1)
        within = None if law is None else law.probability_within(times * compared.near.min(axis=1))
        chance = bdtr(hits, replayed.shape[1], 0.0 if within is None else within)
        possible = possible | (chance >= _CHANCE)
    return compared.counts & agrees, compared.counts & ~(agrees | possible)


def _follow_from_others(sample: _TrueMessages, threshold: ExplanationThreshold, *, search: bool) -> Bools:
    """Which messages the clicks of a message nearby, or of a `search`, explain, (n,)."""
    compared, replay = UpdateComparison(sample.view, threshold), replay_of(sample.view)
    found = np.zeros(len(sample.slots), dtype=np.bool_)
    for clicks in sample.nearby:
        found |= compared.explained_by(replay.updates(clicks))
    if search and not found.all() and why_too_long(sample.view) is None:
        found |= compared.explained_by(replay.updates(_likely_clicks(sample.view)))
    return found


def _likely_clicks(view: View) -> Bools:
    """The most likely clicks behind each message if all are equally likely before it, (n, B, k)."""
    decoder = PatternDecoder(view, "uniform")
    if view.shown.shape[1] == 1:
        likely = decoder.likelihoods(np.arange(len(view)), 0, view.parameters)
        best = likely + decoder.log_priors(np.arange(len(view)), 0)
        return patterns_as_clicks(best.argmax(axis=1)[:, np.newaxis], view.shown.shape[2])
    return joint_clicks(decoder, _SHORTLIST, _SWEEPS)


def _compare_clicks(trace: Trace, sample: Sequence[_TrueMessages]) -> TruthCheck:
    """Messages that are the clicks themselves, list by list."""
    checked = 0
    for each in sample:
        true = each.clicks.reshape(len(each.view), -1)
        differ = np.any(each.view.messages[:, : true.shape[1]] != true, axis=1)
        if differ.any():
            slot = int(each.slots[differ.argmax()])
            raise _of_others(trace, "observed/messages", each.round, slot, int(differ.sum()), len(differ))
        checked += len(each.view)
    return TruthCheck(checked)


def _of_others(trace: Trace, table: str, round_: int, slot: int, others: int, of: int) -> TraceError:
    part = next(part for part in trace.parts if part.first_round <= round_ <= part.last_round)
    more = f" ({others} of {of} sampled messages do)" if others > 1 else ""
    return TraceError(
        f"trace: {trace.folder / part.file_name('truth/clicks')}: round {round_}, message {slot}: "
        f"{part.file_name(table)} follows from other clicks{more}; expected the clicks of its own messages"
    )
