"""The system that the header of a trace declares, and what it declares about noise.

The facts `local_dp_clip`, `local_dp_eps`, `local_dp_delta` and `claimed_sensitivity` are the parameters of
Flower's `LocalDpMod`, which clips the update of a client in L2 and adds normal noise to every coordinate. Its
sensitivity is a parameter of its own, which nothing compares with the clip.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.core.declared.declared_system import (
    AccountingBasis,
    DeclaredStep,
    DeclaredSystem,
    Restatement,
)
from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.core.plugins.answers import law_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.defaults import NO_DEFENSE, SEEDED
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.accounting.walk import CHANGES_MESSAGES, NOISE, Kind
from foltr_audit.privacy.events import (
    CorrelatedNoise,
    FloatRounding,
    MessageAggregation,
    NoiseAddition,
    NormBound,
    NormScaling,
    PrivacyClaim,
    PrivacyEvent,
    RevealedDraws,
    UnknownNoise,
    event_text,
)
from foltr_audit.privacy.noise import AdditiveNoise, GammaShare, parse_law
from foltr_audit.privacy.noise.base import plain
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.rng import Streams
from foltr_audit.trace.header import ChainAction, TraceHeader
from foltr_audit.utils.arrays import Floats

_TAILS = (1.0, 0.9, 0.75, 0.63, 0.5, 0.25, 0.1, 0.03)
"""Shares of the noise outside of the smallest window that windows leave outside."""

_NEXT_TO_NOTHING = 1e-12  # a window that leaves less than this outside can never hold too many


@dataclass(frozen=True)
class NoiseWindow:
    """Noise lies less than `half` from 0, or from any other point, with at most this probability."""

    half: float
    probability: float


@dataclass(frozen=True, kw_only=True)
class NoiseDeclaration:
    """What a header says about the noise of one message: the law, the defenses' names, and its acts in order.

    Each is None where the header is silent about it.
    """

    text: str | None
    chain: str | None = None
    acts: tuple[ChainAction, ...] | None = None

    @classmethod
    def of(cls, header: TraceHeader) -> NoiseDeclaration:
        """What a header declares: by its events, or else by the names of its defenses."""
        noise, events = header.knowledge.get("noise"), header.events
        law = noise if isinstance(noise, str) and noise != "none" else None
        names = _texts(header.knowledge.get("defense"))
        if noise == "none" and names is None and events is None:
            names = [NO_DEFENSE]
        acts = None
        if events is not None:
            acts = tuple(act for act in events if act.kind != "format")
            law = law or "+".join(act.law for act in acts if act.law is not None) or None
        elif names is not None:
            acts = _acts_of_names(names, law, header.parameters)
        return cls(text=law, chain=None if names is None else "+".join(names), acts=acts)

    @property
    def is_none(self) -> bool:
        """Whether the header says that nothing adds noise."""
        return self.text is None and self.acts is not None

    @property
    def in_clear(self) -> bool:
        """Whether the header says that a server reads each message as the client made it."""
        acts = (act for act in self.acts or () if act.kind != "sum noise")
        return self.is_none and all(act.kind == "reduction" for act in acts)

    @cached_property
    def last_noise(self) -> tuple[str, ...]:
        """Texts of the laws of the noise that is added last; of all noise where the header gives no order."""
        if self.acts is None:
            return tuple(parts(self.text)) if self.text else ()
        return tuple(act.law or "" for act in _since(CHANGES_MESSAGES, self.acts) if act.kind in NOISE)

    @cached_property
    def laws(self) -> tuple[AdditiveNoise, ...]:
        """The laws of the noise that is added last; empty where one of them is not known here."""
        laws = [parse_law(text) for text in self.last_noise]
        known = [law for law in laws if law is not None and law.probability_within(law.scale) is not None]
        return tuple(known) if len(known) == len(laws) else ()

    @property
    def why_not(self) -> str | None:
        """Why messages cannot be compared with the declared law; None where they can."""
        if self.text is None:
            return "the header declares no noise law"
        if not self.last_noise:
            after = [act.text for act in self.acts or () if act.kind in CHANGES_MESSAGES]
            return f"{after[-1] if after else 'what comes'} after {self.text} may change a message"
        declared = {_canonical(text) for text in parts(self.text)}
        if not {_canonical(text) for text in self.last_noise} <= declared:
            last = "+".join(law or "a law that is not stated" for law in self.last_noise)
            return f"the header's noise is {self.text}, and what is added last is {last}"
        if not self.laws:
            return f"the law {'+'.join(self.last_noise)} is not known here"
        return None if self.windows else f"nearly all noise of {'+'.join(self.last_noise)} is 0"

    @cached_property
    def cause_of_equality(self) -> ChainAction | None:
        """The first act that may make coordinates equal on its own, so that equal ones prove nothing."""
        kinds = (*CHANGES_MESSAGES, "grid noise", "unknown noise")
        return next((act for act in _since(("noise",), self.acts or ()) if act.kind in kinds), None)

    def chance_of_equal(self, coordinates: int) -> float | None:
        """How likely two messages are equal by chance, at most; None where that is not known.

        Given one of them, each coordinate of the other agrees with at most the probability of the smallest
        window of a law on a grid.
        """
        if self.cause_of_equality is None or self.is_none:
            return 0.0
        if self.why_not is not None:
            return None
        return float(self.windows[0].probability ** coordinates)

    def within(self, half: ArrayLike) -> Floats | None:
        """At most how probable it is that noise lies less than each half-width from 0, or from any point.

        For a sum of independent terms that is at most what it is for each of them: whatever the others are,
        the sum lies in a window exactly if this term lies in a moved one.
        """
        terms = [p for law in self.laws if (p := law.concentration(half)) is not None]
        return np.min(terms, axis=0) if terms and len(terms) == len(self.laws) else None

    @cached_property
    def windows(self) -> tuple[NoiseWindow, ...]:
        """Windows from the smallest one that says something to one that holds nearly all noise."""
        if not self.laws:
            return ()
        halves = np.unique(np.concatenate([law.half_widths() for law in self.laws]))
        probabilities = self.within(halves)
        if probabilities is None:
            return ()
        first = float(probabilities[0])
        indices = np.searchsorted(probabilities, first + (1.0 - first) * (1.0 - np.array(_TAILS)))
        windows = [
            NoiseWindow(half=float(halves[index]), probability=float(probabilities[index]))
            for index in indices.tolist()
            if index < halves.size and 1.0 - probabilities[index] > _NEXT_TO_NOTHING
        ]
        return tuple(dict.fromkeys(windows))

    def ratios_of_weaker(self, share: float) -> Floats:
        """How many times more numbers noise of a share of the variance has in each window, at least."""
        weaker = [law.with_variance(share) for law in self.laws]
        halves = self._halves * (1 - 1e-12) / len(weaker)
        inside = [p for law in weaker if (p := law.probability_within(halves)) is not None]
        return np.prod(inside, axis=0) / self._at_most if len(inside) == len(weaker) else np.ones(halves.size)

    def ratios_of_shared(self) -> Floats:
        """How many times more differences of two numbers with the same noise lie in each window, at least."""
        shared = [p for law in self.laws if (p := law.summed(2).concentration(self._halves)) is not None]
        apart = np.min([self._at_most, *shared], axis=0)
        return np.asarray(1.0 / apart)

    @property
    def _halves(self) -> Floats:
        return np.array([window.half for window in self.windows])

    @property
    def _at_most(self) -> Floats:
        return np.array([window.probability for window in self.windows])


def _since(kinds: Sequence[Kind], acts: tuple[ChainAction, ...]) -> tuple[ChainAction, ...]:
    """The acts after the last one of some kinds; all of them where there is none."""
    places = [place for place, act in enumerate(acts) if act.kind in kinds]
    return acts[places[-1] + 1 :] if places else acts


def _canonical(text: str) -> str:
    law = parse_law(text)
    return text if law is None else law.text


def _acts_of_names(chain: Sequence[str], noise: str | None, parameters: int) -> tuple[ChainAction, ...]:
    """What the defenses of a header without events do; the laws of its `noise` belong to them in order."""
    actions = [act for text in chain for part in parts(text) for act in _of_defense(part.strip(), parameters)]
    laws = parts(noise) if noise else []
    noisy = sum(act.kind in NOISE for act in actions)
    own: Iterator[str] = iter(laws if len(laws) == noisy else [])
    acts = []
    for act in actions:
        text = next(own, None) if act.kind in NOISE else None
        law = None if text is None else parse_law(text)
        on_grid = law is not None and law.grid > 0
        acts.append(act._replace(law=text if on_grid == (act.kind == "grid noise") else None))
    return tuple(acts)


def _of_defense(text: str, parameters: int) -> Iterator[ChainAction]:
    """What a registered defense declares; one unknown action if the text describes none."""
    try:
        acts = DefenseChain((make(Defense, text),)).acts(_context(parameters))
    except UsageError:
        yield ChainAction.of(text, None)
        return
    yield from (ChainAction.of(text, event) for _, event in acts)


_SAME = 1e-9  # relative: two declarations of one number
_MOST_SHARES = 10**9
_MOST_NUMBERS = 10**7  # a message of as many zeros is made


def declared_by(header: TraceHeader, cohort: int | None = None) -> DeclaredSystem:
    """What a header declares: by its defenses where they are registered here, else by its events or facts.

    `cohort`: messages of a round, of which the clients are a whole cohort; None where they are not.

    Raises:
        TraceError: messages of more than 10^7 numbers.
    """
    if header.width > _MOST_NUMBERS:
        raise TraceError(f"trace: header: {header.width} numbers a message; expected at most {_MOST_NUMBERS}")
    names = _texts(header.knowledge.get("defense"))
    try:
        chain = None if names is None else DefenseChain(parse_chain(names or [NO_DEFENSE]))
    except UsageError:  # a defense that is not known here
        chain = None
    if chain is None:
        system = _by_facts(header)
        n: int | None = cohort or max((step.shares for step in system.steps), default=1)
    else:
        stated = _stated_shares(header, chain)
        n = cohort or stated
        context = _context(header.width, stated or n or 1, _separation(header))
        always = header.knowledge.get("clip_without_pairs") is not False
        system = DeclaredSystem.of_chain(chain, context, acts_without_pairs=always)
        if n is None:
            system = replace(system, steps=_with_stated_sums(system.steps, header))
    system, claimed = system.revealing(revealed_draws(header)), header.stated("eps_claimed")
    if not system.claims and claimed is not None and math.isfinite(claimed):
        system = replace(system, claims=(_claim("knowledge.eps_claimed", claimed),))
    return replace(
        system,
        complete=system.complete and header.holds_models,
        cohort=n if n != 1 else cohort,
        interactions=header.stated("interactions"),
        separation=_separation(header),
        number_format=header.number_format,
        members=stated_members(header, n),
        lists_follow_clicks=_follow(header),
        restated=tuple(_restated(system.steps, header)),
    )


def _claim(name: str, epsilon: float, delta: float = 0.0, **scope: str) -> PrivacyClaim:
    return PrivacyClaim(
        mechanism=name, epsilon=epsilon, delta=delta, **{"unit": "", "relation": "", "view": ""} | scope
    )


def _by_facts(header: TraceHeader) -> DeclaredSystem:
    """What events say, or else facts about a clip and noise; more may happen to a message then."""
    steps = _steps_of_facts(header) if header.events is None else _steps_of_events(header)
    complete, basis = _all_read(header), local_noise(header)
    claims: tuple[PrivacyClaim, ...] = ()
    if basis.sensitivity is not None:
        steps = _with_local_noise(steps, basis, header.stated("local_dp_clip"))
    if basis.epsilon is not None and basis.delta is not None:
        # Local differential privacy: whatever a client learns from may be replaced, and messages are seen
        # (Kasiviswanathan et al. 2011, "What can we learn privately?", definition 2.2).
        scope = {"unit": "client", "relation": "replace-one", "view": "individual"}
        claims = (_claim("knowledge.local_dp_eps", basis.epsilon, basis.delta, **scope),)
    return DeclaredSystem(steps=steps, claims=claims, basis=basis, complete=complete, parameters=header.width)


def local_noise(header: TraceHeader) -> AccountingBasis:
    """What normal noise of a client was computed from, as facts say; nothing without a sensitivity."""
    names = ("claimed_sensitivity", "local_dp_eps", "local_dp_delta")
    sensitivity, epsilon, delta = map(header.stated, names)
    if sensitivity is None or epsilon is None or not delta:
        return AccountingBasis(sensitivity=sensitivity)
    return AccountingBasis(sensitivity=sensitivity, epsilon=epsilon, delta=delta)


def _with_local_noise(
    steps: Sequence[DeclaredStep], basis: AccountingBasis, clip: float | None
) -> tuple[DeclaredStep, ...]:
    """Declared steps with the numbers of the noise; clip and noise are added where the steps lack them."""
    found, events = [*steps], [step.event for step in steps]
    if basis.sigma is not None and not any(isinstance(event, NoiseAddition) for event in events):
        law = parse_law(f"gaussian:sigma={plain(basis.sigma)}")
        if law is not None:
            noise = NoiseAddition(law=law)
            found.append(DeclaredStep(name="knowledge.claimed_sensitivity", event=noise))
    found = [replace(one, **vars(basis)) if isinstance(one.event, NoiseAddition) else one for one in found]
    if clip is not None and not any(isinstance(event, NormBound) for event in events):
        bound = NormBound(norm=clip, ord=2, of="update")
        found.insert(0, DeclaredStep(name="knowledge.local_dp_clip", event=bound))
    return tuple(found)


def _with_stated_sums(steps: Sequence[DeclaredStep], header: TraceHeader) -> tuple[DeclaredStep, ...]:
    """Steps of a chain with the sums that events state: how large its own are depends on the cohort."""
    sums = iter([event for _, event, _ in header.events or () if isinstance(event, MessageAggregation)])
    return tuple(
        replace(step, event=next(sums, step.event)) if isinstance(step.event, MessageAggregation) else step
        for step in steps
    )


def revealed_draws(header: TraceHeader) -> RevealedDraws | None:
    """What reveals the draws of clients: what the events name, or seeds of a generator that everybody has."""
    named = [event for _, event, _ in header.events or () if isinstance(event, RevealedDraws)]
    return named[0] if named else RevealedDraws(by="each message") if header.attacked_kind == SEEDED else None


def stated_members(header: TraceHeader, cohort: int | None = None) -> SumMembers | None:
    """Who is in a sum, of a cohort of so many messages; None where the header does not say.

    Clients with different numbers of interactions weigh differently in a sum, by how much no header states.
    """
    honest = header.stated("honest_messages")
    if honest is None or "interactions" not in header.knowledge:
        return None
    return SumMembers(cohort=max(honest, cohort or honest), fewest=honest)


def _texts(fact: object) -> list[str] | None:
    if isinstance(fact, str):
        return [fact]
    return [*fact] if isinstance(fact, list) else None


def _law(header: TraceHeader) -> AdditiveNoise | None:
    noise = header.knowledge.get("noise")
    return parse_law(noise) if isinstance(noise, str) else None


def _context(parameters: int, shares: int = 1, separation: int = 1) -> RoundContext:
    nobody = np.empty(0, dtype=np.int64)
    return RoundContext(
        round=0,
        shares=shares,
        clients=nobody,
        counts=nobody,
        parameters=np.zeros(parameters),
        source=Streams(0),
        separation=separation,
    )


def _stated_shares(header: TraceHeader, chain: DefenseChain) -> int | None:
    """Into how many shares the stated law divides the noise of a chain; None where it does not say."""
    law, alone = _law(header), _context(header.width, separation=_separation(header))
    whole = [found for link in chain.defenses if (found := law_of(link, alone)) is not None]
    if law is None or len(whole) != 1:
        return None
    if isinstance(law, GammaShare):
        return law.n if law.n > 1 else None
    ratio = whole[0].variance / law.variance if law.variance > 0 else 1.0
    return round(min(ratio, _MOST_SHARES)) if ratio >= 1.5 else None


def _separation(header: TraceHeader) -> int:
    """Rounds between two of one client, at least: a header says so only by the bands of correlated noise."""
    noises = [event for _, event, _ in header.events or () if isinstance(event, CorrelatedNoise)]
    return max((noise.bands for noise in noises), default=1)


def _follow(header: TraceHeader) -> bool | None:
    """Whether lists follow from clicks on earlier ones of a message; None where the header does not say.

    A Run of foltr-audit says only which other model than a client's own ranks its lists.
    """
    behind, ranks = header.stated("interactions"), header.knowledge.get("rank_with")
    if ranks is None and header.spec_hash and header.holds_models:
        ranks = "local"
    return None if ranks is None or behind is None else ranks == "local" and behind != 1


def _steps_of_events(header: TraceHeader) -> tuple[DeclaredStep, ...]:
    """What the events do that are known here."""
    return tuple(
        DeclaredStep(name=text.partition(":")[0], event=event, shares=_parts(event))
        for text, event, _ in header.events or ()
        if event is not None and not isinstance(event, UnknownNoise)
    )


def _all_read(header: TraceHeader) -> bool:
    """Whether there are events, and all of them are known here."""
    return header.events is not None and len(_steps_of_events(header)) == len(header.events)


def _steps_of_facts(header: TraceHeader) -> tuple[DeclaredStep, ...]:
    """A clip and noise, as far as the facts about them say; more may happen to a message."""
    events: dict[str, PrivacyEvent] = {}
    norm, order, whole = map(header.stated, ("clip_norm", "clip_ord", "update_clip_norm"))
    if norm is not None and order is not None:
        events["clip_norm"] = NormBound(norm=norm, ord=order, of="model")
    if whole is not None:
        events["update_clip_norm"] = NormBound(norm=whole, ord=2, of="update")
    if (law := _law(header)) is not None:
        events["noise"] = NoiseAddition(law=law)
    return tuple(
        DeclaredStep(name=f"knowledge.{name}", event=event, shares=_parts(event))
        for name, event in events.items()
    )


def _parts(event: PrivacyEvent) -> int:
    """The number n that a law of shares names itself."""
    law = event.law if isinstance(event, NoiseAddition) else None
    return law.n if isinstance(law, GammaShare) and law.count == 1 else 1


def _restated(steps: Sequence[DeclaredStep], header: TraceHeader) -> Iterator[Restatement]:
    """What a header declares twice, and differently: noise, clip, and all that happens to a message."""
    said, law = header.knowledge.get("noise"), _law(header)
    laws = [step.event.law for step in steps if isinstance(step.event, NoiseAddition)]
    done = "+".join(one.text for one in laws) or "none"
    alike = len(laws) == 1 and law is not None and type(law) is type(laws[0])
    alike = alike and math.isclose(law.variance, laws[0].variance, rel_tol=_SAME)  # type: ignore[union-attr]
    if isinstance(said, str) and steps and (law is not None or said == "none") and done != said and not alike:
        elsewhere = f"the defenses or events of the header add {done}"
        yield Restatement(field="knowledge.noise", said=said, elsewhere=elsewhere)
    norm, order = map(header.stated, ("clip_norm", "clip_ord"))
    bounds = [step.event for step in steps if isinstance(step.event, NormBound)]
    same = (math.isclose(b.norm, norm, rel_tol=_SAME) and order in (None, b.ord) for b in bounds)
    if norm is not None and bounds and not any(same):
        clips = " and ".join(f"{bound.norm:g} in L{bound.ord:g}" for bound in bounds)
        said = f"{norm:g}" + ("" if order is None else f" in L{order:g}")
        elsewhere = f"the defenses of the header clip at {clips}"
        yield Restatement(field="knowledge.clip_norm", said=said, elsewhere=elsewhere)
    happens, stated = map(_told, (steps, _steps_of_events(header)))
    if _all_read(header) and happens != stated:
        elsewhere = f"the defenses of the header do {', '.join(happens) or 'nothing'}"
        told = ", ".join(stated) or "nothing"
        yield Restatement(field="knowledge.events", said=told, elsewhere=elsewhere)


def _told(steps: Iterable[DeclaredStep]) -> list[str]:
    """The events of steps as texts, without those that others may leave out: that no norm grows, too."""
    events = [step.event for step in steps if not isinstance(step.event, FloatRounding | RevealedDraws)]
    return [event_text(one) for one in events if not (isinstance(one, NormScaling) and one.factor == 1)]
