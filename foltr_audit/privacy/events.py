"""What a defense claims, and what it does to messages, as accounting sees it; and these events as text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from foltr_audit.privacy.noise import AdditiveNoise, parse_law
from foltr_audit.privacy.noise.base import plain
from foltr_audit.privacy.observer_views import BY_SIGHT
from foltr_audit.privacy.randomized_response import RandomizedResponse
from foltr_audit.utils.arrays import Floats

UNITS = {
    "click": "one click of one interaction is flipped",
    "interaction": "all clicks of one interaction are replaced; query and list stay",
    "query": "all clicks of one client on one query are replaced",
    "client": "everything that one client learns from is replaced",
}
"""What two neighbouring inputs differ in, from the smallest to the largest."""


def _rank(name: str, names: Iterable[str]) -> int:
    return next((rank for rank, known in enumerate(names) if known == name), -1)


@dataclass(frozen=True, kw_only=True)
class PrivacyClaim:
    """A differential-privacy claim as the authors of a defense make it, for one round.

    Attributes:
        mechanism: name of the defense that makes it.
        epsilon: claimed epsilon.
        delta: claimed delta, 0 for pure differential privacy.
        unit: what two neighbouring inputs differ in, of `UNITS`.
        relation: `replace-one` or `add-remove`.
        view: whose observations it is about, of `observer_views.VIEWS`.
    """

    mechanism: str
    epsilon: float
    delta: float = 0.0
    unit: str
    relation: str
    view: str

    @property
    def reach(self) -> tuple[int, int]:
        """How much it covers: rank of its unit, and of what its observer sees; -1 for an unknown one."""
        return _rank(self.unit, UNITS), _rank(self.view, BY_SIGHT)


@dataclass(frozen=True, kw_only=True)
class Ball:
    """A norm ball that a step defense keeps parameters in.

    Attributes:
        norm: radius.
        ord: 2 for the Euclidean norm, 1 for the sum of absolute values.
    """

    norm: float
    ord: int = 2

    def projected(self, models: Floats) -> Floats:
        """Models (C, P), those outside of the ball scaled into it."""
        from foltr_audit.kernels.messages import projected

        return projected(models, self.norm, self.ord)


@dataclass(frozen=True, kw_only=True)
class NormBound:
    """Every message is moved towards the centre of a norm ball, and lies in it from here on.

    Attributes:
        norm: radius R; two messages differ by at most 2 R.
        ord: 1, 2 or infinity.
        of: what is in the ball: the local `model`, or the `update`, its difference to the global model.
        always: it also holds for a client that took no step; otherwise its message may be the global model.
    """

    norm: float
    ord: float
    of: Literal["model", "update"]
    always: bool = True


@dataclass(frozen=True, kw_only=True)
class NormScaling:
    """Each message is changed without noise, and no norm of it grows by more than `factor`.

    Attributes:
        factor: the largest growth; 1 for leaving coordinates out.
        of: what the factor is for, the `model` or the `update`; bounds of the other are lost.
    """

    factor: float
    of: Literal["model", "update"]


@dataclass(frozen=True, kw_only=True)
class GridRounding:
    """Each coordinate of a message is rounded to a multiple of `step`.

    Attributes:
        step: a coordinate moves by less than this.
        nearest: by no more than half of it: to the nearest multiple.
    """

    step: float
    nearest: bool = False


DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
"""Binary digits that a number of each format holds."""


@dataclass(frozen=True, kw_only=True)
class FloatRounding:
    """Each coordinate of a message is rounded to the nearest number of a floating-point format.

    Attributes:
        format: of `DIGITS`.
    """

    format: str


@dataclass(frozen=True, kw_only=True)
class RevealedDraws:
    """A message says from which seed its client draws clicks and noise.

    Attributes:
        by: the learner whose messages do.
    """

    by: str


@dataclass(frozen=True, kw_only=True)
class NoiseAddition:
    """Independent noise of one law is added to every coordinate of every client's message."""

    law: AdditiveNoise


class ClickLaw(NamedTuple):
    """P(reported as a click) of a document that was not clicked, and of one that was."""

    unclicked: float
    clicked: float

    def then(self, other: ClickLaw) -> ClickLaw:
        """The law of reports that are randomised once more.

        >>> ClickLaw(0.0, 0.5).then(ClickLaw(0.25, 0.75))
        ClickLaw(unclicked=0.25, clicked=0.5)
        """
        twice = (p * other.clicked + (1.0 - p) * other.unclicked for p in self)
        return ClickLaw(*twice)


@dataclass(frozen=True, kw_only=True)
class ClickRandomization:
    """Every click and non-click is randomised independently before the client learns from it.

    Where `reported` says nothing else, both are flipped with the probability `1 / (1 + e^epsilon)` (Warner
    1965). Attacks know that law; no law of this epsilon tells them more.

    Attributes:
        epsilon: the largest log ratio of one reported bit, `ln(p / (1 - p))`.
        reported: P(reported as a click) of a document that was not clicked, and of one that was.
    """

    epsilon: float
    reported: ClickLaw | None = None

    @classmethod
    def reporting(cls, unclicked: float, clicked: float) -> ClickRandomization:
        """The event of a law that reports a non-click and a click as a click with these probabilities.

        >>> round(ClickRandomization.reporting(unclicked=0.1, clicked=0.4).epsilon, 4)
        1.3863

        Raises:
            ValueError: a number outside 0..1.
        """
        if not (0 <= unclicked <= 1 and 0 <= clicked <= 1):
            raise ValueError(f"reports of clicks: {unclicked}, {clicked}; expected probabilities")
        pairs = (clicked, unclicked), (1.0 - clicked, 1.0 - unclicked)
        usual = clicked >= 0.5 and unclicked == 1.0 - clicked
        ratios = [
            abs(math.log(one / other)) if one > 0 < other else math.inf
            for one, other in pairs[: 1 if usual else 2]
            if one != other
        ]
        return cls(epsilon=max(ratios, default=0.0), reported=None if usual else ClickLaw(unclicked, clicked))

    @classmethod
    def kept_with(cls, probability: float) -> ClickRandomization:
        """The event of randomised response that reports the truth with this probability."""
        return cls.reporting(1.0 - probability, probability)

    @property
    def law(self) -> ClickLaw:
        """How clicks and non-clicks are reported."""
        if self.reported is not None:
            return self.reported
        keep = RandomizedResponse.with_epsilon(self.epsilon, 2).p
        return ClickLaw(1.0 - keep, keep)


@dataclass(frozen=True, kw_only=True)
class MetricRandomization:
    """The online metric of every interaction is randomised independently before the client averages them.

    Attributes:
        epsilon: the largest log ratio of one reported value.
    """

    epsilon: float


@dataclass(frozen=True, kw_only=True)
class KeyShares:
    """Which clients can open a masked message together.

    Attributes:
        neighbours: clients with which each client masks, and which hold a share of its secrets each: the
            nearest ones on a circle whose order is drawn again in every round, or all others.
        needed: how many of them can open its message, if they give the server their shares.
    """

    neighbours: int
    needed: int


@dataclass(frozen=True, kw_only=True)
class MessageAggregation:
    """The server gets the sum of the messages and no single one (secure aggregation).

    Attributes:
        at_least: fewest messages in a sum; with fewer the server gets no sum.
        key_shares: who can open a message together; None if no clients can.
    """

    at_least: int
    key_shares: KeyShares | None = None


@dataclass(frozen=True, kw_only=True)
class CorrelatedNoise:
    """Gaussian noise is added to the sum of each round's messages, correlated over the rounds of a run.

    The noise of all rounds is `C^-1 z`, see `foltr_audit.privacy.noise.gaussian`. It is scaled by the largest
    weight of a message in the sum.

    Attributes:
        sigma: standard deviation of the independent noise z.
        bands: bands of C; with 1 the noise of each round is independent.
    """

    sigma: float
    bands: int = 1


@dataclass(frozen=True, kw_only=True)
class OpaqueChange:
    """A change that is not declared: bounds before it are lost; after noise of clients it costs nothing."""

    mechanism: str


PrivacyEvent = (
    NormBound
    | NormScaling
    | GridRounding
    | FloatRounding
    | RevealedDraws
    | NoiseAddition
    | ClickRandomization
    | MetricRandomization
    | MessageAggregation
    | CorrelatedNoise
    | OpaqueChange
)
"""One thing that happens to what a client sends; a chain declares them in their order."""


def in_format(events: Sequence[PrivacyEvent], number_format: str) -> tuple[PrivacyEvent, ...]:
    """Events with the number format of a message where they name none: after its defenses, before the sum."""
    if any(isinstance(event, FloatRounding) for event in events):
        return tuple(events)
    late = (MessageAggregation, CorrelatedNoise)
    at = next((at for at, event in enumerate(events) if isinstance(event, late)), len(events))
    if 0 < at < len(events) and isinstance(events[at - 1], GridRounding):
        at -= 1  # a secure sum rounds what it gets
    return (*events[:at], FloatRounding(format=number_format), *events[at:])


# A sign or `nan` does not match: radii, factors, steps and epsilons are never below 0, and a text
# may come from a trace of another system.
_NUMBER = r"(inf|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
_OF = "of=(model|update)"


@dataclass(frozen=True, kw_only=True)
class UnknownNoise:
    """`NoiseAddition` by a law that `parse_law` does not know.

    Attributes:
        law: the law's text.
    """

    law: str


def event_text(event: PrivacyEvent) -> str:
    """One event as text.

    >>> event_text(NormBound(norm=1.5, ord=2, of="model"))
    'bounded:of=model,norm=1.5,ord=2'
    """
    match event:
        case NormBound():
            always = "" if event.always else ",not-always"
            return f"bounded:of={event.of},norm={plain(event.norm)},ord={plain(event.ord)}{always}"
        case NormScaling():
            return f"resized:of={event.of},factor={plain(event.factor)}"
        case GridRounding():
            return f"rounded:step={plain(event.step)}{',nearest' if event.nearest else ''}"
        case NoiseAddition():
            return f"noised:{event.law.text}"
        case ClickRandomization():
            return f"randomised-clicks:{_reports(event)}"
        case MetricRandomization():
            return f"randomised-metrics:eps={plain(event.epsilon)}"
        case MessageAggregation():
            shares = event.key_shares
            opened = "" if shares is None else f",neighbours={shares.neighbours},needed={shares.needed}"
            return f"summed:at-least={event.at_least}{opened}"
        case CorrelatedNoise():
            return f"noised-sum:sigma={plain(event.sigma)},bands={event.bands}"
        case OpaqueChange() | FloatRounding() | RevealedDraws():
            return _word(event)


def _reports(event: ClickRandomization) -> str:
    """How an event randomises clicks, as text."""
    if event.reported is None:
        return f"eps={plain(event.epsilon)}"
    unclicked, clicked = map(plain, event.reported)
    return f"unclicked={unclicked},clicked={clicked}"


def _word(event: OpaqueChange | FloatRounding | RevealedDraws) -> str:
    """The text of an event that names one thing."""
    if isinstance(event, FloatRounding):
        return f"sent-as:{event.format}"
    if isinstance(event, RevealedDraws):
        return f"draws-revealed:{event.by}"
    return f"opaque:{event.mechanism}"


def parse_event(text: str) -> PrivacyEvent | UnknownNoise | None:
    """The event that a text names, or None.

    >>> parse_event("rounded:step=0.001,nearest")
    GridRounding(step=0.001, nearest=True)
    """
    for form, made in _FORMS:
        # Without DOTALL the name of an opaque mechanism that holds a line break would match no form.
        match = re.fullmatch(form, text, flags=re.DOTALL)
        if match is not None:
            return made(*match.groups())
    return None


def _noised(text: str) -> NoiseAddition | UnknownNoise:
    law = parse_law(text)
    return UnknownNoise(law=text) if law is None else NoiseAddition(law=law)


def _reporting(unclicked: str, clicked: str) -> ClickRandomization | None:
    law = float(unclicked), float(clicked)
    return ClickRandomization.reporting(*law) if max(law) <= 1 else None


def _summed(at_least: str, neighbours: str | None, needed: str | None) -> MessageAggregation:
    shares = neighbours and needed and KeyShares(neighbours=int(neighbours), needed=int(needed))
    return MessageAggregation(at_least=int(at_least), key_shares=shares or None)


_FORMS: tuple[tuple[str, Callable[..., PrivacyEvent | UnknownNoise | None]], ...] = (
    (
        f"bounded:{_OF},norm={_NUMBER},ord={_NUMBER}(,not-always)?",
        lambda of, norm, order, never: NormBound(
            norm=float(norm), ord=float(order), of=of, always=never is None
        ),
    ),
    (f"resized:{_OF},factor={_NUMBER}", lambda of, factor: NormScaling(factor=float(factor), of=of)),
    (
        f"rounded:step={_NUMBER}(,nearest)?",
        lambda step, nearest: GridRounding(step=float(step), nearest=nearest is not None),
    ),
    (f"sent-as:({'|'.join(DIGITS)})", lambda format_: FloatRounding(format=format_)),
    ("draws-revealed:(.*)", lambda by: RevealedDraws(by=by)),
    ("noised:(.+)", _noised),
    (f"randomised-clicks:eps={_NUMBER}", lambda eps: ClickRandomization(epsilon=float(eps))),
    (f"randomised-clicks:unclicked={_NUMBER},clicked={_NUMBER}", _reporting),
    (f"randomised-metrics:eps={_NUMBER}", lambda eps: MetricRandomization(epsilon=float(eps))),
    # Fifteen digits bound the integers: `int` would read thousands of them, and raise an error beyond.
    ("summed:at-least=([0-9]{1,15})(?:,neighbours=([0-9]{1,15}),needed=([0-9]{1,15}))?", _summed),
    (
        f"noised-sum:sigma={_NUMBER},bands=([0-9]{{1,15}})",
        lambda sigma, bands: CorrelatedNoise(sigma=float(sigma), bands=int(bands)),
    ),
    ("opaque:(.*)", lambda mechanism: OpaqueChange(mechanism=mechanism)),
)
