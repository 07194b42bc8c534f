"""Links messages of different rounds to the same client by traits that persist."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from foltr_audit.core.records.view import without_padding
from foltr_audit.inference.intent_likelihood import above_best, list_likelihoods, posteriors, under_each
from foltr_audit.inference.pattern_decoder import PatternDecoder, why_too_long
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.plugins import Inference, LinkAttack, View
from foltr_audit.utils.arrays import Floats, Ints

TRAITS = ("count", "clicks", "intents", "direction")
"""Traits of a client that may persist."""

_BEHAVIOUR = 3  # numbers that describe how a message's lists were clicked
_SLIP = 0.05  # chance that a client's next number of interactions is that of a random client
_PERSISTS = 0.2  # assumed correlation of a client's click behaviour between rounds
_CLOSER = 0.25  # standard deviations by which cosines of one client's updates exceed those of two
_ROUNDING = 1e-9  # spread of numbers, relative to the largest, that counts as none
_FAR = 3.0  # standard deviations to which numbers are clipped


class Linkage(LinkAttack):
    """Sums log likelihood ratios, one client or two, over the traits by which two messages are compared.

    `count`: the number of interactions, which is sent in clear, stays the same except for a few slips.
    `clicks`: clicks per list and click rates on relevant and on other documents, decoded without a belief,
    are correlated normal numbers. `intents`: one intent explains both messages. `direction`: the cosine of a
    client's updates, minus their mean, is larger than that of two clients by a quarter of a standard
    deviation; this also reveals noise that is used twice. Traits that the observer cannot decode are left
    out. The statistic is naive: it treats the traits as independent, with strengths set by hand, not learnt.

    Sees: the messages of both rounds and how many interactions each has; for clicks and intents also what
    `map` and `intent-inference` see.

    Source: a sum of likelihood ratios of independent fields, Fellegi & Sunter 1969, "A theory for record
    linkage", section 2; the persisting trait as in Narayanan & Shmatikov 2008, "Robust de-anonymization of
    large sparse datasets", section 4.
    """

    name: ClassVar[str] = "linkage"
    status: ClassVar[Literal["stable", "experimental"]] = "experimental"  # its strengths are set by hand

    needs: ClassVar[frozenset[str]] = frozenset({"shown"})

    use: str = Field(
        "count/clicks/intents/direction", description="traits that are compared, with / between them"
    )
    shortlist: int = Field(
        4, ge=1, le=1024, description="shortlist of joint-map, for messages with several lists"
    )
    sweeps: int = Field(
        0, ge=0, le=1000, description="sweeps of joint-map; 0: only its rounded relaxed start, which is fast"
    )

    @field_validator("use")
    @classmethod
    def _known(cls, text: str) -> str:
        given = text.split("/")
        if not set(given) <= set(TRAITS) or len(set(given)) < len(given):
            raise ValueError(f"expected some of {', '.join(TRAITS)} with / between them")
        return text

    @without_padding
    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """`answer` describes each message; the score is the probability of a click without any belief."""
        from foltr_audit.kernels.patterns import marginals

        n, B, k = view.shown.shape
        scores, evidence = np.zeros((n, B, k)), np.zeros((n, 0))
        if self._decodes(view):
            weighed = "intents" in self.use.split("/") and view.knowledge.belief is not None
            worlds = under_each(view) if weighed else []
            evidence = np.zeros((n, len(worlds)))
            neutral = PatternDecoder(view, "uniform")
            for rows, b, likely in list_likelihoods(neutral, self.shortlist, self.sweeps):
                lengths = view.is_document[rows, b].sum(axis=1)
                scores[rows, b] = marginals(likely, lengths, k)[0]
                for intent, decoder in enumerate(worlds):
                    evidence[rows, intent] += marginals(likely + decoder.log_priors(rows, b), lengths, k)[3]
            behaviour = click_behaviour(scores, view)
        else:
            behaviour = np.full((n, _BEHAVIOUR), np.nan)
        count = view.is_document.any(axis=2).sum(axis=1).astype(np.float64)
        traits = _MessageTraits(count, behaviour, above_best(evidence), view.updates)
        return Inference(scores=scores, guess=(scores > 0.5) & view.is_document, answer=traits.packed())

    def _decodes(self, view: View) -> bool:
        if not {"clicks", "intents"} & set(self.use.split("/")):
            return False
        known = all(view.knowledge.has(name) for name in NEEDS)
        return known and why_no_replay(view) is None and why_too_long(view) is None

    def likeness(self, first: Floats, second: Floats, offered: Ints) -> Floats:
        ours, theirs, used = _MessageTraits.of(first), _MessageTraits.of(second), self.use.split("/")
        total = np.zeros(offered.shape)
        if "count" in used:
            total += same_count(ours.sizes, theirs.sizes, offered)
        if "clicks" in used:
            total += alike(ours.behaviour, theirs.behaviour, offered).sum(axis=2)
        if "intents" in used and ours.intents.shape[1]:
            total += same_kind(ours.intents, theirs.intents, offered)
        if "direction" in used:
            total += same_direction(ours.updates, theirs.updates, offered)
        return total


class _MessageTraits(NamedTuple):
    """Traits of n messages that may persist, float64: interactions (n,), behaviour, intents, updates (n, P).

    The behaviour is clicks per list, and click rates on relevant and on other documents, (n, 3), NaN where
    undefined. Of intents it is the log likelihood, (n, I); I = 0 where they are not weighed.
    """

    sizes: Floats
    behaviour: Floats
    intents: Floats
    updates: Floats

    def packed(self) -> Floats:
        """One row per message, with the number of intents in front, (n, F)."""
        n, intents = self.intents.shape
        front = np.column_stack([np.full(n, float(intents)), self.sizes])
        return np.concatenate([front, self.behaviour, self.intents, self.updates], axis=1)

    @classmethod
    def of(cls, rows: Floats) -> _MessageTraits:
        first = 2 + _BEHAVIOUR
        last = first + (int(rows[0, 0]) if len(rows) else 0)
        return cls(rows[:, 1], rows[:, 2:first], rows[:, first:last], rows[:, last:])


def click_behaviour(clicked: Floats, view: View) -> Floats:
    """Clicks per list, click rates on relevant and on other documents, (n, 3), from P(click) (n, B, k)."""
    here, labels = view.is_document, view.labels
    relevant = here & (labels > 0) if labels is not None else np.zeros_like(here)
    other = here & ~relevant if labels is not None else np.zeros_like(here)
    columns = [(here, here.any(axis=2).sum(axis=1))]
    columns += [(chosen, chosen.sum(axis=(1, 2))) for chosen in (relevant, other)]
    out = np.full((len(view), _BEHAVIOUR), np.nan)
    for column, (chosen, size) in enumerate(columns):
        clicks = np.where(chosen, clicked, 0.0).sum(axis=(1, 2))
        np.divide(clicks, size, out=out[:, column], where=size > 0)
    return out


def same_count(ours: Floats, theirs: Floats, offered: Ints) -> Floats:
    """Log likelihood ratio (n, m) of counts (n,) and (N,): equal, or that of any client after a slip."""
    values, number, seen = np.unique(theirs, return_inverse=True, return_counts=True)
    share = (seen / max(1, theirs.size))[number] if values.size else np.ones(0)
    same = theirs[offered] == ours[:, np.newaxis]
    return np.asarray(np.log(_SLIP + (1 - _SLIP) * np.where(same, 1.0 / share[offered], 0.0)))


def alike(ours: Floats, theirs: Floats, offered: Ints) -> Floats:
    """Log likelihood ratio (n, m, F) of standardised (n, F) and (N, F): correlated or independent."""
    a, b = standardised(ours)[:, np.newaxis], standardised(theirs)[offered]
    r = _PERSISTS
    ratio = (r * a * b - r * r * (a * a + b * b) / 2) / (1 - r * r) - np.log(1 - r * r) / 2
    return np.where(np.isnan(ratio), 0.0, ratio)


def standardised(numbers: Floats) -> Floats:
    """Columns (n, F) standardised and clipped to three deviations; 0 without spread, NaN stays."""
    out = np.full(numbers.shape, np.nan)
    for column in range(numbers.shape[1]):
        known = ~np.isnan(numbers[:, column])
        mean, spread = _moments(numbers[known, column])
        out[known, column] = np.clip((numbers[known, column] - mean) / spread, -_FAR, _FAR)
    return out


def same_kind(ours: Floats, theirs: Floats, offered: Ints) -> Floats:
    """Log likelihood ratio (n, m) from log likelihoods (n, I), (N, I): one kind for both, or one each."""
    even = np.full(ours.shape[1], 1.0 / ours.shape[1])
    both = np.einsum("ni,nmi->nm", posteriors(ours, even), posteriors(theirs, even)[offered])
    return np.asarray(np.log(np.maximum(both * ours.shape[1], np.finfo(np.float64).tiny)))


def same_direction(ours: Floats, theirs: Floats, offered: Ints) -> Floats:
    """Log likelihood ratio (n, m) of cosines of updates (n, P), (N, P): those of one client are larger."""
    first, second = _directions(ours), _directions(theirs)
    columns = [np.einsum("np,np->n", first, second[offered[:, j]]) for j in range(offered.shape[1])]
    cosines = np.stack(columns, axis=1) if columns else np.zeros(offered.shape)
    mean, spread = _moments(cosines.reshape(-1))
    return np.asarray(_CLOSER * (cosines - mean) / spread - _CLOSER**2 / 2)


def _directions(updates: Floats) -> Floats:
    """Updates (n, P) minus their mean, scaled to length 1; 0 stays 0."""
    largest = np.abs(updates).max(initial=0.0)
    # Scaled first, so that squares of very large or very small numbers neither overflow nor underflow.
    scaled = updates / largest if 0 < largest < np.inf else np.zeros_like(updates)
    # Sorted, so that the rounding of the mean does not depend on the order of the messages.
    centred = scaled - np.sort(scaled, axis=0).mean(axis=0) if len(scaled) else scaled
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 0))


def _moments(numbers: Floats) -> tuple[float, float]:
    """Mean and standard deviation, independent of the order; the latter is 1 where there is no spread."""
    if not numbers.size:
        return 0.0, 1.0
    rising = np.sort(numbers)
    spread = float(rising.std())
    rounding = _ROUNDING * float(np.abs(rising).max())
    return float(rising.mean()), spread if spread > rounding else 1.0
