"""The check: how many messages the declared facts explain, and which other facts would explain more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from foltr_audit.core.records.view import STEP_FACTS, View
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.judge.fact_check.sample import MessageSample, sample_of
from foltr_audit.judge.fact_check.search import (
    ExplanationCount,
    ExplanationThreshold,
    FactSearchResult,
    explain,
    search,
)
from foltr_audit.judge.fact_check.seeds import explained_by_seeds, why_no_seed_check
from foltr_audit.judge.fact_check.settings import StepSetting, describe
from foltr_audit.judge.fact_check.step_check import MOST_MESSAGES, explained_by_step
from foltr_audit.judge.fact_check.steps import usual_size
from foltr_audit.judge.fact_check.tolerance import bar_of
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.view_builder import knowledge_of
from foltr_audit.privacy.accounting.actions import CHANGES_MESSAGES
from foltr_audit.privacy.noise import parse_law
from foltr_audit.trace import Trace
from foltr_audit.trace.declared_noise import NoiseDeclaration

State = Literal["explained", "wrong", "cannot tell", "not checked"]

_GOOD = 0.8  # measured: right facts explain all messages, wrong ones at most .57 of them
_FEWEST = 3  # messages that a verdict needs
_TRIED = 16  # messages that other settings are tried on
_LONGEST = 14  # documents of a list: 2^14 click patterns for each message and setting
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
        better: facts that explain more, by name; `better_explains` is their share.
        contradictions: what the counts of messages contradict.
    """

    state: State
    reason: str | None = None
    messages: int = 0
    explained: float | None = None
    better: dict[str, object] = field(default_factory=dict)
    better_explains: float | None = None
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
        line = f"declared facts explain {_percent(self.explained)} of {self.messages} messages"
        if self.better:
            line += f"; {describe(self.better)} explains {_percent(self.better_explains)}"
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
            "better": self.better,
            "better_explains": self.better_explains,
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
        return _compare_seeds(trace, observer)
    reason = _why_not(trace, own_step=observer.client_step is not None)
    sample = MessageSample() if reason else sample_of(trace, replace(observer, hidden=frozenset()))
    reason = reason or _why_not_these(sample)
    found = FactCheck("not checked", reason) if reason else _compare(trace, sample)
    return replace(found, contradictions=tuple(sample.contradictions))


def _compare_seeds(trace: Trace, observer: Observer) -> FactCheck:
    """Whether lists are in the order that follows from the seeds of their messages."""
    known = knowledge_of(trace.header)
    reason = why_no_seed_check(known)
    if reason is not None:
        return FactCheck("not checked", reason)
    by_name = explained_by_seeds(trace, replace(observer, hidden=frozenset()))
    shares = {name: float(found.mean()) if found.size else 0.0 for name, found in by_name.items()}
    declared = str(known.perturbation)
    messages, share = by_name[declared].size, shares[declared]
    if messages < _FEWEST:
        return FactCheck("cannot tell", f"{messages} messages have lists of enough documents", messages)
    if share >= _GOOD:
        return FactCheck("explained", None, messages, share)
    best = max(shares, key=lambda name: shares[name])
    if shares[best] >= _GOOD:
        return FactCheck("wrong", None, messages, share, {"perturbation": best}, shares[best])
    reason = "no known generator explains more; check sigma, antithetic, the model and the order of the lists"
    return FactCheck("wrong", reason, messages, share)


def _compare(trace: Trace, sample: MessageSample) -> FactCheck:
    first = sample.pieces[0].view
    size = float(np.median(np.concatenate([usual_size(piece.view) for piece in sample.pieces])))
    bar = bar_of(first.knowledge, [piece.view for piece in sample.pieces], size)
    if bar is None:
        why = "noise of the declared law is larger than the updates"
        return FactCheck("cannot tell", why, sample.size)
    if first.knowledge.client_step is not None:
        return _compare_step(trace, sample, bar, first.knowledge.client_step.text)
    declared = StepSetting.declared(trace.header.content, first.knowledge)
    result = explain(declared, sample.pieces, bar)
    if result.messages < _FEWEST:
        why = f"only {result.messages} messages of {sample.size} differ enough from the global model"
        return FactCheck("cannot tell", why, result.messages)
    if result.share >= _GOOD:
        odd = _too_many_clicks(result) if declared.pairs == "all" else None
        return FactCheck("explained", odd, result.messages, result.share)
    return _search_better(trace, sample, bar, declared, result)


def _compare_step(trace: Trace, sample: MessageSample, bar: ExplanationThreshold, step: str) -> FactCheck:
    """The verdict on a client step; the opposite sign is all else that is tried."""
    pieces = sample.smaller(MOST_MESSAGES)
    result = explained_by_step(pieces, bar)
    if result.messages < _FEWEST:
        why = f"only {result.messages} messages differ enough from the global model"
        return FactCheck("cannot tell", why, result.messages)
    if result.share >= _GOOD and result.clicked <= 0.5:
        return FactCheck("explained", None, result.messages, result.share)
    opposite = explained_by_step(pieces, bar, sign=-1)
    if result.share >= _GOOD:
        odd = _too_many_clicks(result) if opposite.share >= _GOOD else None
        return FactCheck("explained", odd, result.messages, result.share)
    better: dict[str, object] = {"sign": -1} if opposite > result else {}
    act = _changing_act(trace) or _unknown_noise(trace)
    reason = f"client step {step} may be wrong, or chance in it, such as dropout"
    if act is not None:
        reason = f"few messages are explained, and {act}"
    return FactCheck(
        state="wrong" if act is None else "cannot tell",
        reason=None if better and act is None else reason,
        messages=result.messages,
        explained=result.share,
        better=better,
        better_explains=opposite.share if better else None,
    )


def _search_better(
    trace: Trace,
    sample: MessageSample,
    bar: ExplanationThreshold,
    declared: StepSetting,
    result: ExplanationCount,
) -> FactCheck:
    """The verdict on facts that explain too few messages."""
    candidates = sample.pieces[0].view.candidates is not None
    found = search(declared, sample.smaller(_TRIED), bar, candidates=candidates)
    better = explain(found.setting, sample.pieces, bar) if found.setting != declared else result
    changes = found.setting.changes(declared) if better > result else {}
    act, unknown = _changing_act(trace), _unknown_noise(trace)
    state: State = "wrong" if act is None and (changes or unknown is None) else "cannot tell"
    reason = _nothing_better(found, candidates=candidates)
    if state == "cannot tell":
        more = f"; {describe(changes)} explains {_percent(better.share)}" if changes else ""
        reason = f"few messages are explained, and {act or unknown}{more}"
    return FactCheck(
        state=state,
        reason=None if changes and state == "wrong" else reason,
        messages=result.messages,
        explained=result.share,
        better=changes,
        better_explains=better.share if changes else None,
    )


def _too_many_clicks(result: ExplanationCount) -> str | None:
    """Warning where most documents are clicked, and clicks on the others with sign -1 explain as much."""
    if result.clicked <= 0.5:
        return None
    return (
        f"but {_percent(result.clicked)} of the shown documents would then be clicked, "
        f"with sign -1 {_percent(1 - result.clicked)}"
    )


def _nothing_better(found: FactSearchResult, *, candidates: bool) -> str:
    if found.own_factors is not None:
        low, high = found.own_factors
        return (
            f"each message is a step times a factor of its own ({low:.3g} to {high:.3g}): "
            "a clip or weight of updates that no fact declares"
        )
    more = "" if candidates else " (or PDGD normalises over all candidates: give the data with --data)"
    return (
        "no other sign, kind, pairs, step size, clip or model explains more; "
        f"check the order of the lists{more}"
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
    if not sample.pieces:
        several = sorted(sample.lists - {1})
        if several:
            many = str(several[0]) if len(several) == 1 else f"{several[0]} to {several[-1]}"
            return f"messages of {many} lists"
        if sample.silent:
            return f"{sample.silent} messages, none of which differs from the global model"
        return "no message with a list of two documents is recorded"
    view: View = sample.pieces[0].view
    own_step = view.knowledge.client_step is not None
    needs = NEEDS - STEP_FACTS if own_step else NEEDS
    missing = sorted(name for name in needs if not view.knowledge.has(name))
    if missing:
        return f"the observer does not know: {', '.join(missing)}"
    longest = max(piece.view.width for piece in sample.pieces)
    if longest > _LONGEST:
        return f"a list has {longest} documents; every click pattern of up to {_LONGEST} can be tried"
    if own_step:
        return None
    if view.knowledge.normaliser == "candidates" and view.candidates is None:
        return "PDGD normalises over all candidates, which the trace does not hold; give the data with --data"
    return why_no_replay(view)


def _percent(share: float | None) -> str:
    return "nothing" if share is None else f"{100 * share:.0f} %"
