"""Whether the true clicks of a trace belong to its messages: a sample is replayed through the client step.

Where the clicks of a message do not reproduce it, and other clicks on the same lists do, its truth is that of
another message. Where no clicks do, a fact may be wrong as well, and nothing is said about the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import View
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.inference.joint_search import StepSearch, joint_clicks
from foltr_audit.inference.pattern_decoder import PatternDecoder, patterns_as_clicks, why_too_long
from foltr_audit.inference.replay import Replay, StepReplay, why_no_step_replay
from foltr_audit.judge.fact_check import (
    FEWEST,
    GOOD,
    ExplanationThreshold,
    MatchTolerance,
    changing_act,
    rows_of,
    thinned,
    unknown_noise,
    why_masked,
    why_no_steps,
    why_unknown_step,
)
from foltr_audit.judge.observer import InteractionPlacement, Observer
from foltr_audit.judge.pieces import with_messages
from foltr_audit.judge.round_sums import isolated_client, not_subtracted
from foltr_audit.privacy.accounting.walk import ChainAction
from foltr_audit.privacy.noise import parse_law
from foltr_audit.rng import Streams
from foltr_audit.trace import Trace, TraceHeader
from foltr_audit.trace.declared_header import NoiseDeclaration
from foltr_audit.utils.arrays import Bools, Floats, Ints

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
            view=rows_of(self.view, rows),
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
        reason = reason or why_no_steps(header, own_step=own_step)
    if reason is not None:
        return TruthCheck(reason=reason)
    # Without a click model no view counts grades over the whole training split, for a belief about clicks.
    facts = {name: fact for name, fact in header.knowledge.items() if name != "click_model"}
    everything = replace(observer, header=replace(header, knowledge=facts), hidden=frozenset())
    sample = list(_sampled(trace, everything, malicious))
    if not sample:
        return TruthCheck(reason="no message with recorded lists and known clicks")
    hidden = _hidden_clicks(header, acts)
    if header.kind == "clicks":
        return TruthCheck(reason=hidden) if hidden else _compare_clicks(trace, sample)
    view = sample[0].view
    if reason := why_unknown_step(view) or (why_no_step_replay(view) if own_step else None):
        return TruthCheck(reason=reason)
    if hidden is None:
        _compare(trace, list(_undefended(header, sample)), "truth/messages")
    if reason := why_masked(header):
        return TruthCheck(reason=reason)
    doubt = hidden or changing_act(header) or unknown_noise(header)
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


def _sampled(trace: Trace, observer: Observer, malicious: Malicious | None) -> Iterator[_TrueMessages]:
    """At most `_MOST` messages, of rounds spread evenly over a trace and drawn by a fixed stream."""
    trace = thinned(trace)
    every = -(-trace.n_rounds // _MOST)
    quota, left = -(-_MOST * every // max(1, trace.n_rounds)), _MOST
    for index, (record, truth) in enumerate(zip(trace.rounds(), trace.truths(), strict=True)):
        slots = _replayable(record, truth, malicious)
        if index % every or not slots.size or not left:
            continue
        draws = Streams(0).generator(f"truth/{record.round}")
        chosen = np.sort(draws.permutation(slots)[: min(quota, left)])
        left -= chosen.size
        mine, rows = with_messages(record, chosen)
        placement = InteractionPlacement.of(mine)
        away = sorted({-placement.shape[1], -1, 0, 1, placement.shape[1]}, key=abs)
        clicks = np.stack(
            [placement.spread(truth.clicks[(rows + rows_away) % len(truth.clicks)], 0) for rows_away in away]
        )
        for seen in observer.views(mine):
            view = seen.view if observer.header.kind == "clicks" else seen.view.trimmed()
            possible = clicks[:, seen.rows, :, : view.shown.shape[2]] & view.is_document
            yield _TrueMessages(
                view=view,
                clicks=possible[0],
                nearby=possible[1:],
                updates=truth.updates[chosen[seen.rows]],
                round=record.round,
                slots=chosen[seen.rows],
            )


def _replayable(record: RoundRecord, truth: RoundTruth, malicious: Malicious | None) -> Ints:
    """Messages that arrived, whose clients received the global model and whose clicks are known."""
    good = not_subtracted(record) & (np.bincount(record.slot, minlength=record.n_messages) > 0)
    target = isolated_client(record)
    if target is not None:  # the others received another model
        good &= np.arange(good.size) == target
    if truth.known is not None:
        good[record.slot[~truth.known]] = False
    if malicious is not None:
        good &= ~malicious(truth.clients)
    return np.flatnonzero(good)


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
        return TruthCheck(reason="noise of the declared law is larger than the updates")
    others: list[tuple[int, int]] = []
    counted, agreed, far, tried = 0, 0, 0, 0
    for each in sample:
        counts, agrees, cannot = _own_clicks(each, threshold)
        counted += int(counts.sum())
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


def _own_clicks(sample: _TrueMessages, threshold: ExplanationThreshold) -> tuple[Bools, Bools, Bools]:
    """Which messages moved enough to count, follow from their clicks, and cannot follow from them, (n,) each.

    They cannot but for a chance of `_CHANCE`. A message that is the opposite of its update may follow from
    it: a client may reverse it, and other clicks may have the opposite effect.
    """
    view, tolerance = sample.view, threshold.tolerance(sample.view)
    moved = tolerance.moved.sum(axis=1)
    counts = (moved >= threshold.least) & (moved > threshold.by_noise)
    times = _BY_NOISE if threshold.noise else _BY_ROUNDING
    updates, enough = _replayed(view, sample.clicks), threshold.share * moved
    near = _near(view, updates, tolerance, times)
    agrees = (near & tolerance.moved).sum(axis=1) > enough
    reversed_ = (_near(view, -updates, tolerance, times) & tolerance.moved).sum(axis=1) > enough
    possible = _probability(view, near.sum(axis=1), times * tolerance.near.min(axis=1)) >= _CHANCE
    return counts, counts & agrees, counts & ~(agrees | reversed_ | possible)


def _probability(view: View, hits: Ints, half: Floats) -> Floats:
    """How probable it is that noise leaves at most so many numbers of a message within `half`, (n,)."""
    from scipy.stats import binom

    if view.knowledge.noise in (None, "none"):
        return np.zeros(len(view))
    law = parse_law(str(view.knowledge.noise))
    within = None if law is None else law.probability_within(half)
    return np.asarray(binom.cdf(hits, view.updates.shape[1], 0.0 if within is None else within))


def _follow_from_others(sample: _TrueMessages, threshold: ExplanationThreshold, *, search: bool) -> Bools:
    """Which messages the clicks of a message nearby, or of a `search`, explain, (n,)."""
    view, found = sample.view, np.zeros(len(sample.slots), dtype=np.bool_)
    tolerance = threshold.tolerance(view)
    enough = threshold.share * tolerance.moved.sum(axis=1)
    for clicks in sample.nearby:
        near = _near(view, _replayed(view, clicks), tolerance)
        found |= (near & tolerance.moved).sum(axis=1) > enough
    if not search or found.all() or why_too_long(view) is not None:
        return found
    likely = _replayed(view, _likely_clicks(view))
    return np.asarray(found | ((_near(view, likely, tolerance) & tolerance.moved).sum(axis=1) > enough))


def _replayed(view: View, clicks: Bools) -> Floats:
    """The updates (n, P) that clients send after clicks (n, B, k)."""
    if view.knowledge.client_step is None:
        return np.asarray(Replay(view).paths(np.arange(len(view)), clicks)[-1] - view.parameters)
    steps, models = StepReplay(view), view.parameters.copy()
    for i, b in zip(*np.nonzero(steps.lengths), strict=True):
        mine = clicks[i, b : b + 1, : steps.lengths[i, b]].astype(np.float64)
        models[i] = steps.models(i, b, models[i], mine)[0]
    return models - view.parameters


def _near(view: View, updates: Floats, tolerance: MatchTolerance, times: float = 1.0) -> Bools:
    """Which numbers of each message updates (n, P) come near, (n, P)."""
    slack = tolerance.step * np.abs(updates).max(axis=1, initial=0.0, keepdims=True)
    return np.asarray(np.abs(view.updates - updates) <= times * (tolerance.near + slack))


def _likely_clicks(view: View) -> Bools:
    """The most likely clicks behind each message if all are equally likely before it, (n, B, k)."""
    decoder = PatternDecoder(view, "uniform")
    if view.shown.shape[1] == 1:
        likely = decoder.likelihoods(np.arange(len(view)), 0, view.parameters)
        best = likely + decoder.log_priors(np.arange(len(view)), 0)
        return patterns_as_clicks(best.argmax(axis=1)[:, np.newaxis], view.shown.shape[2])
    if view.knowledge.client_step is not None:
        return np.asarray(StepSearch(decoder, _SWEEPS).answer().guess)
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
