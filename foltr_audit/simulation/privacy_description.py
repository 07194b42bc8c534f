"""What the defenses of an experiment claim, what they do to messages, and where a claim does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.core.chain_warnings import warnings
from foltr_audit.core.plugins import (
    Defense,
    MetricLearner,
    ModelLearner,
    PrivacyEvent,
    RoundContext,
)
from foltr_audit.core.plugins.answers import claims_of
from foltr_audit.privacy.events import NoiseAddition
from foltr_audit.privacy.randomized_response import compose_epsilon

if TYPE_CHECKING:
    from foltr_audit.simulation.setup import Setup


@dataclass(frozen=True)
class PrivacyDescription:
    """The privacy side of a setup. All of it follows from the Spec: no round is played.

    Attributes:
        setup: the experiment.
    """

    setup: Setup

    def claim(self) -> float:
        """The epsilon that the chain claims for one round; infinite without a claim."""
        return self.setup.chain.eps_claimed(self._context)

    def acts(self) -> tuple[tuple[Defense, PrivacyEvent], ...]:
        """What the chain does to a message, with the defense that does it, for accounting."""
        return self.setup.chain.acts(self._context, acts_without_pairs=self._acts_without_pairs)

    def events(self) -> tuple[PrivacyEvent, ...]:
        """What the chain does to a message, for accounting."""
        return tuple(event for _, event in self.acts())

    def noise(self) -> str | None:
        """The noise law of one message, as text."""
        learner = self.setup.learner
        values = learner.values.size if isinstance(learner, MetricLearner) else 0
        return self.setup.chain.noise(self._context, values)

    def warnings(self) -> tuple[str, ...]:
        """Sentences about incompatible defenses, and about claims that do not hold for a whole message."""
        chain, parameters = self.setup.chain.defenses, self.setup.ranker.n_parameters
        found = warnings(chain, parameters, self._context, acts_without_pairs=self._acts_without_pairs)
        return (*found, *self._composed(), *self._unequal(), *self._leaks_by_lists(), *self._leaks_by_bits())

    def _composed(self) -> Iterator[str]:
        """What the randomized metrics of one message compose to."""
        behind = self.setup.interactions
        for defense in self.setup.chain.links("metric"):
            for claim in claims_of(defense, self._context) if behind > 1 else ():
                whole = compose_epsilon(claim.epsilon, behind)
                yield (
                    f"{defense.name}: epsilon {claim.epsilon:.4g} is of one {claim.unit}; "
                    f"a message of {behind} composes {whole:.4g}"
                )

    def _unequal(self) -> Iterator[str]:
        """What clients of different weights do to a claim on sums."""
        if self._noisy and not self.setup.alike_in_number and self.setup.learner.sends == "models":
            yield (
                "clients are weighted by their number of interactions: neither the noise nor the sensitivity "
                "of a sum is that of equal clients"
            )

    def _leaks_by_lists(self) -> Iterator[str]:
        """What lists that follow from clicks do to noise on what is sent."""
        if self._noisy and self.setup.lists_follow_clicks:
            yield (
                f"{self._noisy[0]}: a server that sees the shown lists reads the clicks on each from the "
                "next, whatever the noise on the message: take --rank-with global, or one interaction a "
                "message"
            )

    def _leaks_by_bits(self) -> Iterator[str]:
        """What the number format of messages does to continuous noise."""
        if self.setup.spec.trace.dtype != "float64":
            return
        from foltr_audit.privacy.accounting.walk import walk

        if walk(self.events(), self.setup.ranker.n_parameters).shows_last_bits:
            yield (
                "the last bits of float64 messages reveal what continuous noise was added to: send float32, "
                "or add noise on a grid"
            )

    @cached_property
    def _noisy(self) -> list[str]:
        """Names of the defenses that add noise, in order."""
        return [link.name for link, event in self.acts() if isinstance(event, NoiseAddition)]

    @property
    def _acts_without_pairs(self) -> bool:
        learner = self.setup.learner
        return not isinstance(learner, ModelLearner) or learner.clip_without_pairs

    @cached_property
    def _context(self) -> RoundContext:
        """A round without clients: what a chain declares depends on neither clients nor models."""
        nobody = np.empty(0, dtype=np.int64)
        return self.setup.context(0, nobody, 0, np.zeros(self.setup.ranker.n_parameters))
