"""Whether the facts that a trace declares explain its messages; no truth is needed for this.

For the right clicks, which are unknown, the declared step reproduces the numbers of a message that noise has
not changed. If not even the best of all click patterns does, a fact is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import STEP_FACTS, View
from foltr_audit.errors import TraceError
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.judge.explained_messages import (
    LEAST_DOCUMENTS,
    ExplanationCount,
    ExplanationThreshold,
    explain,
    follow_from_seeds,
)
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import with_messages, with_rows
from foltr_audit.judge.view_builder import knowledge_of
from foltr_audit.privacy.accounting.walk import CHANGES_MESSAGES
from foltr_audit.privacy.noise import parse_law
from foltr_audit.trace import Trace
from foltr_audit.trace.declared_noise import NoiseDeclaration
from foltr_audit.utils.arrays import Ints

State = Literal["explained", "wrong", "cannot tell", "not checked"]

_GOOD = 0.8  # measured: right facts explain all messages, wrong ones at most .57 of them
_FEWEST = 3  # messages that a verdict needs
_LONGEST = 14  # documents of a list: 2^14 click patterns for each message
_MOST_MESSAGES = 200
_MOST_OWN_STEPS = 40  # a step of the user's may take milliseconds for each click pattern
_MOST_PARTS = 10
_BALLS = ("bounded:of=model", "resized:of=model", "clip:")  # acts that `clip_norm` and `clip_ord` describe


@dataclass(frozen=True)
class FactCheck:
    """Result of the check.

    Attributes:
        state: `explained`, `wrong`, `cannot tell` or `not checked`.
        reason: why the check has no answer, or was not made; for explained and wrong facts what else was
            noticed, or None.
        messages: how many messages were examined.
        explained: the share of them that the declared facts explain under the best clicks; None without any.
        contradictions: what the counts of messages contradict.
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
        """Warnings for the user, one line each."""
        odd = self.state == "wrong" or (self.state == "explained" and self.reason is not None)
        return (*((self.text,) if odd else ()), *self.contradictions)

    def table(self) -> dict[str, object]:
        """All fields and texts, as a row."""
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
    """Compare the facts of a trace with a sample of its messages.

    Args:
        trace: the trace; its truth is not read.
        observer: who sees it, with the data set if features are not embedded.

    Raises:
        TraceError: a part that is damaged, or a number that is not finite.
    """
    if trace.header.kind == "es":
        return _check_seeds(trace, replace(observer, hidden=frozenset()))
    reason = _why_not(trace, own_step=observer.client_step is not None)
    sample = MessageSample() if reason else _sample(trace, replace(observer, hidden=frozenset()))
    reason = reason or _why_not_these(sample)
    check = FactCheck("not checked", reason) if reason else _compare(trace, sample)
    return replace(check, contradictions=tuple(sample.contradictions))


# --- the messages that are compared ----------------------------------------------------------------


@dataclass
class MessageSample:
    """What was sampled of a trace.

    Attributes:
        views: sampled messages by round, each with one list.
        lists: numbers of lists that the examined messages hold, from one on.
        silent: messages of one list that do not differ from the global model.
        contradictions: what the counts of a round contradict, one line each.
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
        return [_first_rows(view, per_round) for view in self.views[::step]]


def _first_rows(view: View, count: int) -> View:
    candidates, rows = view.candidates, slice(count)
    return with_rows(
        view,
        (("parameters", "messages", "shown", "features", "clients"), rows),
        candidates=None if candidates is None else replace(candidates, query=candidates.query[rows]),
        labels=None,
        intent_labels=None,
    )


def _sample(trace: Trace, observer: Observer) -> MessageSample:
    """Messages with one list that changed the model, from rounds spread evenly over a trace.

    Raises:
        TraceError: a part that is damaged, or a number that is not finite.
    """
    sample = MessageSample()
    trace = _thinned(trace)
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


def _thinned(trace: Trace) -> Trace:
    """A trace of few parts, spread evenly over all of them."""
    if len(trace.parts) <= _MOST_PARTS:
        return trace
    chosen = np.linspace(0, len(trace.parts) - 1, _MOST_PARTS).astype(np.int64)
    return replace(trace, parts=tuple(trace.parts[index] for index in chosen.tolist()))


def _check_interactions(sample: MessageSample, trace: Trace, record: RoundRecord) -> None:
    stated = trace.header.knowledge.get("interactions")
    if isinstance(stated, bool) or not isinstance(stated, int) or sample.contradictions:
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


# --- lists that follow from seeds (FOLtR-ES) -------------------------------------------------------


def _check_seeds(trace: Trace, observer: Observer) -> FactCheck:
    """Whether lists are in the order that the declared generator makes of the seeds of their messages.

    Raises:
        TraceError: a part that is damaged, or a number that is not finite.
    """
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
    in_order = [follow_from_seeds(seen.view.trimmed())[:quota] for seen in views if seen is not None]
    explained = np.concatenate([np.zeros(0, dtype=np.bool_), *in_order])
    if explained.size < _FEWEST:
        why = f"only {explained.size} messages have a list of {LEAST_DOCUMENTS} documents or more"
        return FactCheck("cannot tell", why, explained.size)
    share = float(explained.mean())
    if share >= _GOOD:
        return FactCheck("explained", None, explained.size, share)
    why = "check perturbation, sigma, antithetic, the model and the order of the lists"
    return FactCheck("wrong", why, explained.size, share)


# --- the verdict -----------------------------------------------------------------------------------


def _compare(trace: Trace, sample: MessageSample) -> FactCheck:
    threshold = ExplanationThreshold.of(sample.views)
    if threshold is None:
        return FactCheck("cannot tell", "noise of the declared law is larger than the updates", sample.size)
    own_step = sample.views[0].knowledge.client_step is not None
    views = sample.smaller(_MOST_OWN_STEPS) if own_step else sample.views
    result = explain(views, threshold)
    messages, share = result.messages, result.share
    if messages < _FEWEST:
        examined = sum(len(view) for view in views)
        why = f"only {messages} messages of {examined} differ enough from the global model"
        return FactCheck("cannot tell", why, messages)
    if share >= _GOOD:
        many = result.clicked > 0.5 and explain(views, threshold, sign=-1).share >= _GOOD
        return FactCheck("explained", _too_many_clicks(result) if many else None, messages, share)
    if doubt := _changing_act(trace) or _unknown_noise(trace):
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


def _changing_act(trace: Trace) -> str | None:
    """Which defense may change messages beyond the declared step and clip; then they prove nothing."""
    for act in NoiseDeclaration.of(trace.header).acts or ():
        ball = "clip_norm" in trace.header.knowledge and act.text.startswith(_BALLS)
        if act.kind in CHANGES_MESSAGES and not ball:
            return f"{act.text} may change them"
    return None


def _unknown_noise(trace: Trace) -> str | None:
    """Why noise may hide how well messages are explained, or None."""
    stated = trace.header.knowledge.get("noise")
    if stated == "none" or (isinstance(stated, str) and parse_law(stated) is not None):
        return None
    declared = NoiseDeclaration.of(trace.header)
    if declared.is_none:
        return None
    noise = declared.text
    return "the header does not say what noise there is" if noise is None else f"noise {noise} is not known"


def _why_not(trace: Trace, *, own_step: bool) -> str | None:
    """Why a trace cannot be checked, whatever its messages are."""
    header = trace.header
    if not header.holds_models:
        return f"messages of kind {header.kind} are no steps of PDGD"
    if header.kind == "masked":
        return "messages are masked"
    missing = [name for name in ("learning_rate", "pairs", "normaliser") if name not in header.knowledge]
    if missing and not own_step:
        return f"the header does not say {', '.join(missing)}"
    return None


def _why_not_these(sample: MessageSample) -> str | None:
    """Why these messages cannot be checked."""
    if not sample.views:
        counts = sorted(sample.lists - {1})
        if counts:
            many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
            return f"messages of {many} lists"
        if sample.silent:
            return f"{sample.silent} messages, none of which differs from the global model"
        return "no message with a list of two documents is recorded"
    view = sample.views[0]
    own_step = view.knowledge.client_step is not None
    needs = NEEDS - STEP_FACTS if own_step else NEEDS
    missing = sorted(name for name in needs if not view.knowledge.has(name))
    if missing:
        return f"the observer does not know: {', '.join(missing)}"
    longest = max(view.width for view in sample.views)
    if longest > _LONGEST:
        return f"a list has {longest} documents; every click pattern of up to {_LONGEST} can be tried"
    if own_step:
        return None
    if view.knowledge.normaliser == "candidates" and view.candidates is None:
        return "PDGD normalises over all candidates, which the trace does not hold; give the data with --data"
    return why_no_replay(view)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
