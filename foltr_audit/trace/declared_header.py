"""The system that the header of a trace declares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from foltr_audit.core.declared.declared_system import (
    AccountingBasis,
    DeclaredClaim,
    DeclaredStep,
    DeclaredSystem,
    NumberFormat,
    Restatement,
    chain_claims,
    chain_steps,
)
from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.plugins.answers import law_of
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.privacy.events import (
    CorrelatedNoise,
    MessageAggregation,
    NoiseAddition,
    NormBound,
    NormScaling,
    PrivacyEvent,
    UnknownNoise,
    event_text,
    parse_event,
)
from foltr_audit.privacy.noise import AdditiveNoise, GammaShare, parse_law
from foltr_audit.rng import Streams
from foltr_audit.trace.header import Fact, TraceHeader
from foltr_audit.trace.local_noise import LocalNoise, positive_number
from foltr_audit.utils.reading import is_whole

_SAME = 1e-9  # relative: two declarations of one number
_MOST_SHARES = 10**9
_MOST_NUMBERS = 10**7  # a message of as many zeros is made


def declared_by(header: TraceHeader, cohort: int | None = None) -> DeclaredSystem:
    """What a header declares: by its defenses where they are registered here, else by its events or facts.

    Args:
        header: the header.
        cohort: messages of a round, of which the clients are a whole cohort; None where they are not.

    Raises:
        TraceError: messages of more than 10^7 numbers.
    """
    if header.width > _MOST_NUMBERS:
        raise TraceError(f"trace: header: {header.width} numbers a message; expected at most {_MOST_NUMBERS}")
    facts = header.knowledge
    chain, events = _chain(_texts(facts.get("defense"))), _steps_of_events(facts.get("events"))
    n = cohort
    if chain is None:
        steps, complete = events if events is not None else (_steps_of_facts(facts), False)
        local = LocalNoise.of(facts)
        steps = steps if local is None else local.joined(steps)
        claims: tuple[DeclaredClaim, ...] = () if local is None else local.claims
        basis = AccountingBasis() if local is None else local.basis
        n = n or max((step.shares for step in steps), default=1)
    else:
        stated = _stated_shares(header, chain)
        n = n or stated
        context = _context(header, stated or n or 1)
        always = facts.get("clip_without_pairs") is not False
        steps = chain_steps(chain, context, acts_without_pairs=always)
        claims, complete, basis = chain_claims(chain, context), True, AccountingBasis()
        if n is None and events is not None:
            steps = _with_sums_of(events[0], steps)
    claimed = positive_number(facts.get("eps_claimed"))
    if not claims and claimed is not None:
        claims = (DeclaredClaim(name="knowledge.eps_claimed", epsilon=claimed),)
    behind = facts.get("interactions")
    return DeclaredSystem(
        steps=steps,
        claims=claims,
        basis=basis,
        complete=complete and header.holds_models,
        parameters=header.width,
        cohort=n if n != 1 else cohort,
        interactions=int(behind) if is_whole(behind, 1) and isinstance(behind, int) else None,
        separation=_separation(header),
        number_format=_number_format(header),
        lists_follow_clicks=_follow(header),
        restated=(*_of_noise(steps, facts), *_of_clip(steps, facts), *_of_events(steps, events)),
    )


def _with_sums_of(stated: Sequence[DeclaredStep], steps: Sequence[DeclaredStep]) -> tuple[DeclaredStep, ...]:
    """The steps of a chain with the sums that the events state: how large they are depends on the cohort."""
    sums = iter([step.event for step in stated if isinstance(step.event, MessageAggregation)])
    return tuple(
        replace(step, event=next(sums, step.event)) if isinstance(step.event, MessageAggregation) else step
        for step in steps
    )


def _texts(fact: object) -> list[str] | None:
    if isinstance(fact, str):
        return [fact]
    return [str(text) for text in fact] if isinstance(fact, list) else None


def _chain(texts: Sequence[str] | None) -> DefenseChain | None:
    """The chain of registered defenses; None where there is none, or one of them is not known here."""
    try:
        return None if texts is None else DefenseChain(parse_chain(texts or [NO_DEFENSE]))
    except UsageError:
        return None


def _law(fact: object) -> AdditiveNoise | None:
    return parse_law(fact) if isinstance(fact, str) else None


def _context(header: TraceHeader, shares: int) -> RoundContext:
    nobody = np.empty(0, dtype=np.int64)
    return RoundContext(
        round=0,
        shares=shares,
        clients=nobody,
        counts=nobody,
        parameters=np.zeros(header.width),
        source=Streams(0),
        separation=_separation(header),
    )


def _stated_shares(header: TraceHeader, chain: DefenseChain) -> int | None:
    """Into how many shares the stated law divides the noise of a chain; None where it does not say."""
    law, alone = _law(header.knowledge.get("noise")), _context(header, 1)
    whole = [found for link in chain.defenses if (found := law_of(link, alone)) is not None]
    if law is None or len(whole) != 1:
        return None
    if isinstance(law, GammaShare):
        return law.n if law.n > 1 else None
    ratio = whole[0].variance / law.variance if law.variance > 0 else 1.0
    return round(min(ratio, _MOST_SHARES)) if ratio >= 1.5 else None


def _separation(header: TraceHeader) -> int:
    """Rounds between two of one client, at least: a header says so only by the bands of correlated noise."""
    events = header.knowledge.get("events")
    found = [parse_event(str(text)) for text in events] if isinstance(events, list) else []
    return max([event.bands for event in found if isinstance(event, CorrelatedNoise)], default=1)


def _number_format(header: TraceHeader) -> NumberFormat:
    return "float64" if header.dtype == "float64" else "float32"


def _follow(header: TraceHeader) -> bool | None:
    """Whether lists follow from clicks on earlier ones of a message; None where the header does not say.

    A Run of foltr-audit says only which other model than a client's own ranks its lists.
    """
    behind, ranks = (header.knowledge.get(name) for name in ("interactions", "rank_with"))
    if ranks is None and header.spec_hash and header.holds_models:
        ranks = "local"
    if ranks is None or not is_whole(behind):
        return None
    return ranks == "local" and behind != 1


def _steps_of_events(fact: object) -> tuple[tuple[DeclaredStep, ...], bool] | None:
    """The steps of the fact `events`, and whether all of them could be read; None without that fact."""
    if not isinstance(fact, list):
        return None
    found = [(str(text), parse_event(str(text))) for text in fact]
    read = [
        (text, event) for text, event in found if event is not None and not isinstance(event, UnknownNoise)
    ]
    steps = tuple(
        DeclaredStep(name=text.partition(":")[0], event=event, shares=_parts(event)) for text, event in read
    )
    return steps, len(read) == len(found)


def _steps_of_facts(facts: Mapping[str, Fact]) -> tuple[DeclaredStep, ...]:
    """A clip and noise, as far as the facts about them say; more may happen to a message."""
    norm, order = (positive_number(facts.get(name)) for name in ("clip_norm", "clip_ord"))
    steps = []
    if norm is not None and order in (1, 2):
        bound = NormBound(norm=norm, ord=order, of="model")
        steps.append(DeclaredStep(name="knowledge.clip_norm", event=bound))
    norm = positive_number(facts.get("update_clip_norm"))
    if norm is not None:
        steps.append(
            DeclaredStep(name="knowledge.update_clip_norm", event=NormBound(norm=norm, ord=2, of="update"))
        )
    law = _law(facts.get("noise"))
    if law is not None:
        noise = NoiseAddition(law=law)
        steps.append(DeclaredStep(name="knowledge.noise", event=noise, shares=_parts(noise)))
    return tuple(steps)


def _parts(event: object) -> int:
    """The number n that a law of shares names itself."""
    law = event.law if isinstance(event, NoiseAddition) else None
    return law.n if isinstance(law, GammaShare) and law.count == 1 else 1


# --- what is declared twice ------------------------------------------------------------------------


def _of_noise(steps: Sequence[DeclaredStep], facts: Mapping[str, Fact]) -> Iterator[Restatement]:
    said = facts.get("noise")
    laws = [step.event.law.text for step in steps if isinstance(step.event, NoiseAddition)]
    if not isinstance(said, str) or not steps or (_law(said) is None and said != "none"):
        return
    done = "+".join(laws) or "none"
    if done != said and not (len(laws) == 1 and _alike(_law(said), _law(done))):
        yield Restatement(
            field="knowledge.noise", said=said, elsewhere=f"the defenses or events of the header add {done}"
        )


def _alike(one: AdditiveNoise | None, other: AdditiveNoise | None) -> bool:
    same = one is not None and other is not None and type(one) is type(other)
    return same and math.isclose(one.variance, other.variance, rel_tol=_SAME)  # type: ignore[union-attr]


def _of_clip(steps: Sequence[DeclaredStep], facts: Mapping[str, Fact]) -> Iterator[Restatement]:
    norm, order = (positive_number(facts.get(name)) for name in ("clip_norm", "clip_ord"))
    bounds = [step.event for step in steps if isinstance(step.event, NormBound)]
    if norm is None or not bounds:
        return
    if not any(
        math.isclose(bound.norm, norm, rel_tol=_SAME) and order in (None, bound.ord) for bound in bounds
    ):
        done = " and ".join(f"{bound.norm:g} in L{bound.ord:g}" for bound in bounds)
        said = f"{norm:g}" + ("" if order is None else f" in L{order:g}")
        yield Restatement(
            field="knowledge.clip_norm", said=said, elsewhere=f"the defenses of the header clip at {done}"
        )


def _is_idle(event: PrivacyEvent) -> bool:
    """Whether an event says only that no norm grows, which others may leave out."""
    return isinstance(event, NormScaling) and event.factor == 1


def _of_events(
    steps: Sequence[DeclaredStep], events: tuple[tuple[DeclaredStep, ...], bool] | None
) -> Iterator[Restatement]:
    if events is None or not events[1]:
        return
    done, said = (
        [event_text(step.event) for step in each if not _is_idle(step.event)] for each in (steps, events[0])
    )
    if done != said:
        yield Restatement(
            field="knowledge.events",
            said=", ".join(said) or "nothing",
            elsewhere=f"the defenses of the header do {', '.join(done) or 'nothing'}",
        )
