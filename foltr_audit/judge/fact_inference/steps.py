"""The settings of PDGD, by how many messages some clicks reproduce under each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from foltr_audit.core.records.view import Knowledge
from foltr_audit.inference.replay import why_no_replay
from foltr_audit.judge.fact_check.sample import MessageSample, RoundSample, rows_of
from foltr_audit.judge.fact_check.search import ExplanationCount, ExplanationThreshold, explain, search
from foltr_audit.judge.fact_check.settings import StepSetting
from foltr_audit.judge.fact_check.steps import usual_size
from foltr_audit.judge.fact_check.tolerance import bar_of
from foltr_audit.judge.fact_inference.estimate import FactEstimate, cannot_tell
from foltr_audit.trace import Fact

NAMES = ("learning_rate", "pairs", "normaliser")
_GOOD = 0.8  # share of the messages that right settings explain
_ALIKE = 0.1  # shares that differ less do not tell settings apart
_TRIED = 24  # messages that settings are tried on
_FEWEST = 5  # messages that count
_ON_BALL = 1e-5  # relative: how near to the ball a clipped model is
_LONGEST = 12  # documents of a list: 2^12 click patterns for each message and setting
_OTHER_PAIRS = {"all": "last-click+1", "last-click+1": "all"}


def step_estimates(sample: MessageSample, content: str, found: Mapping[str, Fact]) -> list[FactEstimate]:
    """The facts `learning_rate`, `pairs` and `normaliser`; sign, kind and model where they are not as usual.

    Args:
        sample: messages of one list each, with models.
        content: kind of a message, `model` or `update`.
        found: facts that are known already, such as the noise law.
    """
    reason = _why_not(sample)
    if reason is not None:
        return [cannot_tell(name, reason) for name in NAMES]
    known = _guessed(sample.pieces[0].view.knowledge, found)
    pieces = [
        replace(piece, view=replace(piece.view, knowledge=known))
        for piece in _untouched(sample, known).smaller(_TRIED)
    ]
    size = float(np.median(np.concatenate([usual_size(piece.view) for piece in pieces])))
    bar = bar_of(known, [piece.view for piece in pieces], size)
    if bar is None:
        return [cannot_tell(name, "noise is larger than the updates") for name in NAMES]
    candidates = pieces[0].view.candidates is not None
    start = StepSetting.declared(content, known)
    result = search(start, pieces, bar, candidates=candidates)
    count = explain(result.setting, pieces, bar)
    if count.messages < _FEWEST or count.share < _GOOD:
        why = f"the best setting of PDGD explains {count.explained} of {count.messages} messages"
        more = "" if candidates else "; give the data with --data if it normalises over all candidates"
        return [cannot_tell(name, why + more) for name in NAMES]
    source = f"best clicks reproduce {count.explained} of {count.messages} messages"
    unusual = result.setting.changes(start)
    made = _settled(result.setting, count, source, pieces=pieces, bar=bar)
    return made + [
        FactEstimate(name, "likely", f"{source}, and fewer as declared", str(value))
        for name, value in unusual.items()
        if name in ("sign", "kind", "parameters")
    ]


def _settled(
    setting: StepSetting,
    count: ExplanationCount,
    source: str,
    *,
    pieces: Sequence[RoundSample],
    bar: ExplanationThreshold,
) -> list[FactEstimate]:
    """The three facts; `pairs` is only told apart where the other value explains clearly fewer messages."""
    other = replace(setting, pairs=_OTHER_PAIRS[setting.pairs])
    against = explain(other, pieces, bar)
    told = count.share > against.share + _ALIKE
    rest = f"; pairs {other.pairs}: {against.explained} of {against.messages}"
    pairs = (
        FactEstimate("pairs", "certain", source + rest, setting.pairs)
        if told
        else FactEstimate("pairs", "likely", f"{source + rest}: the one with fewer clicks", setting.pairs)
    )
    return [
        FactEstimate("learning_rate", "certain", source, setting.learning_rate),
        pairs,
        FactEstimate("normaliser", "certain", source, setting.normaliser),
    ]


def _untouched(sample: MessageSample, known: Knowledge) -> MessageSample:
    """The messages that a known clip did not scale, which show the step as it is; all, if these are few."""
    if known.clip is None:
        return sample
    kept = MessageSample()
    for piece in sample.pieces:
        norms = np.linalg.norm(piece.view.models, ord=known.clip.ord, axis=1)
        rows = np.flatnonzero(norms < known.clip.norm * (1.0 - _ON_BALL))
        if rows.size:
            kept.pieces.append(replace(piece, view=rows_of(piece.view, rows)))
    return kept if kept.size >= _FEWEST else sample


def _guessed(known: Knowledge, found: Mapping[str, Fact]) -> Knowledge:
    """What is known, with the noise and settings to start a search from where they are not."""
    noise = known.noise or found.get("noise")
    return known.having(
        learning_rate=known.learning_rate or 1.0,
        pairs=known.pairs or "all",
        normaliser=known.normaliser or "shown",
        noise=noise if isinstance(noise, str) else None,
    )


def _why_not(sample: MessageSample) -> str | None:
    if not sample.pieces:
        several = sorted(sample.lists - {1})
        return "messages have several lists" if several else "no message of one list changes the model"
    views = [piece.view for piece in sample.pieces]
    if max(view.width for view in views) > _LONGEST:
        return f"lists of more than {_LONGEST} documents: too many click patterns"
    if not views[0].knowledge.has("features"):
        return "the features of shown documents are not known"
    return why_no_replay(replace(views[0], knowledge=_guessed(views[0].knowledge, {})))
