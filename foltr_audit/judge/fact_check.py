"""Whether the facts that a trace declares explain its messages; no truth is needed for this.

For the right clicks, which are unknown, the declared step reproduces the numbers of a message that noise has
not changed, up to rounding. If not even the best of all click patterns does, a fact is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Self

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import STEP_FACTS, View
from foltr_audit.errors import TraceError
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.inference.replay import NEEDS, Replay, StepReplay, into_ball, why_no_replay
from foltr_audit.inference.seeded_clients import perturbed_scores
from foltr_audit.judge.observer import Observer, knowledge_of
from foltr_audit.judge.pieces import RowIndex, with_messages, with_rows
from foltr_audit.privacy.accounting.walk import CHANGES_MESSAGES
from foltr_audit.privacy.noise import AdditiveNoise, parse_law
from foltr_audit.trace import Trace, TraceHeader
from foltr_audit.trace.declared_header import NoiseDeclaration
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.reading import is_whole

LEAST_DOCUMENTS = 4
"""Shorter lists are in the order of seeds by chance too often."""

_SINGLE_PRECISION = 1e-5  # of a list's largest score: clients of FOLtR-ES may compute in it
_RELATIVE = 1e-4  # of the usual size of an update: numbers closer than this count as equal
_MOVED = 8.0  # tolerances that a number must exceed to count as moved
_NUMBERS = 1 << 21  # numbers of the steps of one message at a time: 16 MB
_ARITHMETIC = 2.0**-18  # error of float32 arithmetic over one step, relative to an update's numbers

_SPARE = 0.2  # share of the numbers that sparse noise must leave nearly unchanged
_USUAL = 0.75  # of the noise that a tolerance for dense noise covers
_LEAST = 4  # numbers that must be reproduced at least on average
_LEAST_DENSE = 8  # numbers that must stand out of dense noise
_STANDS_OUT = 5.0  # times as many numbers must stand out as noise alone would make


class MatchTolerance(NamedTuple):
    """How near a number must come to count as reproduced, (n, P), and numbers far enough from 0 to count.

    A part of the tolerance is relative to the size of a step.
    """

    near: Floats
    step: float
    moved: Bools


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

    def tolerance(self, view: View) -> MatchTolerance:
        """The tolerance for rounding, features' included, and for noise."""
        resolution = max(view.knowledge.resolution, view.feature_resolution)
        values = 4.0 * resolution * (np.abs(view.messages) + np.abs(view.parameters))
        usual = np.maximum(usual_size(view), 0.1 * self.size)[:, np.newaxis]
        near = _RELATIVE * usual + values + self.noise
        far = 4.0 * self.noise if self.noise else _MOVED * near
        return MatchTolerance(near, 8.0 * resolution, np.abs(view.updates) > far)


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


@dataclass(frozen=True)
class ExplanationCount:
    """How many messages that count are explained, and the mean share of an explained list that is clicked."""

    explained: int
    messages: int
    clicked: float

    @property
    def share(self) -> float:
        return self.explained / self.messages if self.messages else 0.0


def explain(views: Sequence[View], threshold: ExplanationThreshold, sign: int = 1) -> ExplanationCount:
    """How many messages of one list the declared step times `sign` explains, each by its best clicks."""
    explained, messages, clicked = 0, 0, 0.0
    for view in views:
        tolerance = threshold.tolerance(view)
        reproduced, share = _best_patterns(view, tolerance, sign)
        moved = tolerance.moved.sum(axis=1)
        counts = (moved >= threshold.least) & (moved > threshold.by_noise)
        good = counts & (reproduced > threshold.share * moved)
        explained, messages = explained + int(good.sum()), messages + int(counts.sum())
        clicked += float(share[good].sum())
    return ExplanationCount(explained, messages, clicked / max(1, explained))


def _best_patterns(view: View, tolerance: MatchTolerance, sign: int) -> tuple[Ints, Floats]:
    """Moved numbers that the best click pattern of each message reproduces, and the share that it clicks."""
    steps: PdgdSteps | _OwnSteps
    steps = PdgdSteps(view, tolerance.step) if view.knowledge.client_step is None else _OwnSteps(view)
    lengths = view.is_document.sum(axis=2)[:, 0]
    reproduced, clicked = np.zeros(len(view), dtype=np.int64), np.zeros(len(view))
    for i in range(len(view)):
        moved = tolerance.moved[i]
        update, near = sign * view.updates[i, moved], tolerance.near[i, moved]
        for first, updates, slack in steps.of(i):
            count = (np.abs(updates[:, moved] - update) <= near + slack[:, moved]).sum(axis=1)
            best = int(count.argmax())
            if count[best] > reproduced[i]:
                reproduced[i], clicked[i] = count[best], (first + best).bit_count() / max(1, lengths[i])
    return reproduced, clicked


class PdgdSteps:
    """PDGD's updates for every click pattern of messages with one list each."""

    def __init__(self, view: View, rounding: float = 0.0) -> None:
        """Under what the view knows; `rounding` of updates is relative to the size of a step."""
        self.replay, every = Replay(view), np.arange(len(view))
        self.rounding = rounding * abs(self.replay.learning_rate)
        self.weights = self.replay.weights(view.parameters, every, 0)
        self.rows = self.replay.jacobian(view.parameters, every, 0)

    def of(self, i: int) -> Iterator[tuple[int, Floats, Floats]]:
        """The first pattern of some at a time, and their updates and the rounding of these, both (H, P)."""
        L, P = int(self.replay.lengths[i, 0]), self.rows.shape[2]
        rows, weights = self.rows[i, :L], self.weights[i, :L, :L]
        largest = np.abs(rows).max(axis=0, initial=0.0)
        batch = max(1, _NUMBERS // max(1, P))
        for first in range(0, 1 << L, batch):
            clicks = patterns_as_clicks(np.arange(first, min(first + batch, 1 << L)), L)
            by_document = coefficients(weights, clicks, only_observed=self.replay.only_observed)
            size = np.abs(by_document).sum(axis=1)
            updates = self._sent(i, self.replay.learning_rate * (by_document @ rows), size > 0)
            yield first, updates, self.rounding * size[:, np.newaxis] * largest

    def _sent(self, i: int, steps: Floats, have_pairs: Bools) -> Floats:
        """The updates that clients send after these steps, (H, P)."""
        start, known = self.replay.view.parameters[i], self.replay.view.knowledge
        if known.clip is None:
            return into_ball(steps, known.update_clip)
        models = start + steps
        acts = have_pairs | known.clip_without_pairs
        return np.asarray(np.where(acts[:, np.newaxis], into_ball(models, known.clip), models) - start)


def coefficients(weights: Floats, clicks: Bools, *, only_observed: bool) -> Floats:
    """What each document's Jacobian row is multiplied by, (H, L), of patterns (H, L) with weights (L, L)."""
    c = clicks.astype(np.float64)
    seen = np.ones(c.shape)
    if only_observed:
        rank = np.arange(clicks.shape[1])
        last = np.where(clicks, rank, -2).max(axis=1, initial=-2)[:, np.newaxis]
        seen = (rank <= last + 1).astype(np.float64)
    return np.asarray(seen * (c * (seen @ weights) - (seen * c) @ weights))


class _OwnSteps:
    """The updates of the view's client step for every click pattern of messages with one list each."""

    def __init__(self, view: View) -> None:
        self.replay = StepReplay(view)

    def of(self, i: int) -> Iterator[tuple[int, Floats, Floats]]:
        """As `PdgdSteps.of`."""
        start = self.replay.view.parameters[i]
        for first, local in self.replay.patterns(i, 0, start):
            yield first, local - start, _ARITHMETIC * np.abs(local - start)


def follow_from_seeds(view: View) -> Bools:
    """Which messages have lists in the order of the scores that their seed makes (FOLtR-ES).

    Bool, one for each message with a list of `LEAST_DOCUMENTS` or more.
    """
    long = view.is_document.sum(axis=2) >= LEAST_DOCUMENTS
    scores = np.where(view.is_document, perturbed_scores(view), -np.inf)
    largest = np.abs(np.where(view.is_document, scores, 0.0)).max(axis=2, initial=0.0)
    room = _SINGLE_PRECISION * largest[..., np.newaxis]
    falling = np.all(scores[:, :, 1:] <= scores[:, :, :-1] + room, axis=2)
    return np.asarray((falling | ~long).all(axis=1)[long.any(axis=1)])


State = Literal["explained", "wrong", "cannot tell", "not checked"]

GOOD = 0.8  # measured: right facts explain all messages, wrong ones at most .57 of them
FEWEST = 3  # messages that a verdict needs
_LONGEST = 14  # documents of a list: 2^14 click patterns for each message
_MOST_MESSAGES = 200
_MOST_OWN_STEPS = 40  # a step of the user's may take milliseconds for each click pattern
_MOST_PARTS = 10
_BOUNDS = ("bounded:of=model", "clip:")
_BALLS = (*_BOUNDS, "resized:of=model")  # acts that `clip_norm` and `clip_ord` describe


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
    def is_wrong(self) -> bool:
        """Whether a declared fact does not fit."""
        return self.state == "wrong" or bool(self.contradictions)

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
            "wrong": self.is_wrong,
            "reason": self.reason,
            "messages": self.messages,
            "explained": self.explained,
            "contradictions": list(self.contradictions),
            "text": self.text,
            "warnings": list(self.warnings),
        }


def check_facts(trace: Trace, observer: Observer) -> FactCheck:
    """Compare the facts of a trace with a sample of its messages, as its observer sees them."""
    if trace.header.kind == "es":
        return _check_seeds(trace, replace(observer, hidden=frozenset()))
    own_step = observer.client_step is not None
    reason = why_masked(trace.header) or why_no_steps(trace.header, own_step=own_step)
    sample = MessageSample() if reason else _sample(trace, replace(observer, hidden=frozenset()))
    reason = reason or _why_not_these(sample)
    check = FactCheck("not checked", reason) if reason else _compare(trace, sample)
    return replace(check, contradictions=tuple(sample.contradictions))


@dataclass
class MessageSample:
    """What was sampled of a trace: messages by round, each with one list.

    Also the numbers of lists of the examined messages, how many of one list do not differ from the global
    model, and what the counts of a round contradict.
    """

    views: list[View] = field(default_factory=list)
    lists: set[int] = field(default_factory=set)
    silent: int = 0
    contradictions: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(len(view) for view in self.views)

    def smaller(self, count: int) -> list[View]:
        """About `count` of the messages, as many from each round."""
        per_round = max(1, count // max(1, len(self.views)))
        step = max(1, len(self.views) // count)
        return [rows_of(view, slice(per_round)) for view in self.views[::step]]


def rows_of(view: View, rows: RowIndex) -> View:
    """Some messages of a view of single messages, without grades."""
    candidates = view.candidates
    return with_rows(
        view,
        (("parameters", "messages", "shown", "features", "clients"), rows),
        candidates=None if candidates is None else replace(candidates, query=candidates.query[rows]),
        labels=None,
        intent_labels=None,
    )


def _sample(trace: Trace, observer: Observer) -> MessageSample:
    """Messages with one list that changed the model, from rounds spread evenly over a trace."""
    sample = MessageSample()
    trace = thinned(trace)
    quota = -(-_MOST_MESSAGES // max(1, trace.n_rounds))
    for record in trace.rounds():
        _check_interactions(sample, trace, record)
        slots = _slots(sample, trace, record)
        if not slots.size or sample.size >= _MOST_MESSAGES:
            continue
        known = np.isfinite(record.aggregate)
        if known.any() and not known.all():
            raise TraceError(f"trace: round {record.round} holds a number that is not finite")
        most = min(quota, _MOST_MESSAGES - sample.size)
        spread = np.unique(np.linspace(0, slots.size - 1, min(most, slots.size)).astype(np.int64))
        round_views = observer.views(with_messages(record, slots[spread])[0])
        sample.views += [round_view.view.trimmed() for round_view in round_views]
    return sample


def thinned(trace: Trace) -> Trace:
    """A trace of few parts, spread evenly over all of them."""
    if len(trace.parts) <= _MOST_PARTS:
        return trace
    chosen = np.linspace(0, len(trace.parts) - 1, _MOST_PARTS).astype(np.int64)
    return replace(trace, parts=tuple(trace.parts[index] for index in chosen.tolist()))


def _check_interactions(sample: MessageSample, trace: Trace, record: RoundRecord) -> None:
    stated = trace.header.knowledge.get("interactions")
    if not is_whole(stated) or not record.counts_interactions or sample.contradictions:
        return
    wrong = record.counts[record.survivors & (record.counts != stated)]
    if wrong.size:
        sample.contradictions.append(
            f"interactions is {stated}, but a message of round {record.round} counts {wrong[0]}"
        )


def _slots(sample: MessageSample, trace: Trace, record: RoundRecord) -> Ints:
    """Messages with one list of two documents or more that differ from the global model."""
    if not record.n_messages:
        return np.empty(0, dtype=np.int64)
    lists = np.bincount(record.slot, minlength=record.n_messages)
    sample.lists |= set(np.unique(lists[lists > 0]).tolist())
    long = np.zeros(record.n_messages, dtype=np.bool_)
    long[record.slot[record.lengths > 1]] = True
    single = (lists == 1) & long & record.survivors
    start = record.parameters if trace.header.content == "model" else np.zeros(1)
    moves = np.any(record.messages.astype(np.float64) != start, axis=1)
    sample.silent += int((single & ~moves).sum())
    return np.flatnonzero(single & moves)


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
    views = [next(observer.views(record), None) for record in thinned(trace).rounds()]
    in_order = [follow_from_seeds(seen.view.trimmed())[:quota] for seen in views if seen is not None]
    explained = np.concatenate([np.zeros(0, dtype=np.bool_), *in_order])
    if explained.size < FEWEST:
        why = f"only {explained.size} messages have a list of {LEAST_DOCUMENTS} documents or more"
        return FactCheck("cannot tell", why, explained.size)
    share = float(explained.mean())
    if share >= GOOD:
        return FactCheck("explained", None, explained.size, share)
    why = "check perturbation, sigma, antithetic, the model and the order of the lists"
    return FactCheck("wrong", why, explained.size, share)


def _compare(trace: Trace, sample: MessageSample) -> FactCheck:
    threshold = ExplanationThreshold.of(sample.views)
    if threshold is None:
        return FactCheck("cannot tell", "noise of the declared law is larger than the updates", sample.size)
    own_step = sample.views[0].knowledge.client_step is not None
    views = sample.smaller(_MOST_OWN_STEPS) if own_step else sample.views
    result = explain(views, threshold)
    messages, share = result.messages, result.share
    if messages < FEWEST:
        examined = sum(len(view) for view in views)
        why = f"only {messages} messages of {examined} differ enough from the global model"
        return FactCheck("cannot tell", why, messages)
    if share >= GOOD:
        many = result.clicked > 0.5 and explain(views, threshold, sign=-1).share >= GOOD
        return FactCheck("explained", _too_many_clicks(result) if many else None, messages, share)
    if doubt := changing_act(trace.header) or unknown_noise(trace.header):
        return FactCheck("cannot tell", f"few messages are explained, and {doubt}", messages, share)
    return FactCheck("wrong", _what_may_be_wrong(sample.views[0]), messages, share)


def _too_many_clicks(result: ExplanationCount) -> str:
    """Warning where most documents are clicked, and clicks on the others with sign -1 explain as much."""
    return (
        f"but {_percent(result.clicked)} of the shown documents would then be clicked, "
        f"with sign -1 {_percent(1 - result.clicked)}"
    )


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


def changing_act(header: TraceHeader) -> str | None:
    """Which defense may change messages beyond the declared step and clip; then they prove nothing."""
    acts = NoiseDeclaration.of(header).acts or ()
    one_ball = len({act.text for act in acts if act.text.startswith(_BOUNDS)}) == 1
    for act in acts:
        ball = one_ball and "clip_norm" in header.knowledge and act.text.startswith(_BALLS)
        if act.kind in CHANGES_MESSAGES and not ball:
            return f"{act.text} may change messages"
    return None


def unknown_noise(header: TraceHeader) -> str | None:
    """Why noise may hide how well messages are explained, or None."""
    stated = header.knowledge.get("noise")
    if stated == "none" or (isinstance(stated, str) and parse_law(stated) is not None):
        return None
    declared = NoiseDeclaration.of(header)
    if declared.is_none:
        return None
    noise = declared.text
    return "the header does not say what noise there is" if noise is None else f"noise {noise} is not known"


def why_no_steps(header: TraceHeader, *, own_step: bool) -> str | None:
    """Why no step of the clients of a trace can be computed, whatever its messages are."""
    if not header.holds_models:
        return f"messages of kind {header.kind} are no steps of PDGD"
    missing = [name for name in ("learning_rate", "pairs", "normaliser") if name not in header.knowledge]
    if missing and not own_step:
        return f"the header does not say {', '.join(missing)}"
    return None


def why_masked(header: TraceHeader) -> str | None:
    return "messages are masked" if header.kind == "masked" else None


def _why_not_these(sample: MessageSample) -> str | None:
    if not sample.views:
        counts = sorted(sample.lists - {1})
        if counts:
            many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
            return f"messages of {many} lists"
        if sample.silent:
            return f"{sample.silent} messages, none of which differs from the global model"
        return "no message with a list of two documents is recorded"
    longest = max(view.width for view in sample.views)
    if longest > _LONGEST:
        return f"a list has {longest} documents; every click pattern of up to {_LONGEST} can be tried"
    return why_unknown_step(sample.views[0])


def why_unknown_step(view: View) -> str | None:
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


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
