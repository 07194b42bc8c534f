"""From a Spec and its data to the live objects of a simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foltr_audit.chain import Chain, parse_chain
from foltr_audit.client import ClientRules
from foltr_audit.errors import UsageError
from foltr_audit.metric_response import composed
from foltr_audit.pairings import warnings
from foltr_audit.plugins import (
    ClickModel,
    Learner,
    MetricDefense,
    MetricLearner,
    ModelLearner,
    PrivacyEvent,
    RoundContext,
    Scenario,
)
from foltr_audit.rankers import Ranker, make_ranker
from foltr_audit.records import Collection
from foltr_audit.registry import make
from foltr_audit.rng import Streams
from foltr_audit.spec import Spec


@dataclass(frozen=True)
class Setup:
    """A Spec with its data: the one place where names become objects.

    Attributes:
        spec: the experiment.
        collection: the data, normalised as the Spec says.
    """

    spec: Spec
    collection: Collection

    @cached_property
    def streams(self) -> Streams:
        """All random streams of this experiment."""
        return Streams(self.spec.seed, self.spec.repetition)

    @cached_property
    def ranker(self) -> Ranker:
        """The ranker."""
        return make_ranker(self.spec.train.ranker, self.collection.n_features)

    @cached_property
    def chain(self) -> Chain:
        """The defenses."""
        return Chain(parse_chain(self.spec.defense))

    @cached_property
    def scenario(self) -> Scenario:
        """Who asks what."""
        return make(Scenario, self.spec.population.scenario)

    @cached_property
    def learner(self) -> Learner:
        """The learner."""
        return make(Learner, self.spec.train.learner)

    @property
    def model_learner(self) -> ModelLearner:
        """The learner, of clients that send models.

        Raises:
            UsageError: its clients send something else.
        """
        if not isinstance(self.learner, ModelLearner):
            raise UsageError(
                f"learner {self.learner.name}: it sends {self.learner.sends}; expected one that sends models"
            )
        return self.learner

    @property
    def message_kind(self) -> str:
        """What a message is before it is encoded: `model`, `update`, `es` or `clicks`."""
        kinds = {"models": self.spec.trace.message, "metrics": "es", "clicks": "clicks"}
        return kinds[self.learner.sends]

    def click_model(self, text: str) -> ClickModel:
        """A click model by its text."""
        return make(ClickModel, text)

    def rules(self, click_model: str, *, sampled: bool) -> ClientRules:
        """What clients that learn do, under a click model, with sampled or deterministic lists."""
        learner = self.model_learner
        return ClientRules(
            ranker=self.ranker,
            learner=learner,
            chain=self.chain,
            click_model=self.click_model(click_model),
            largest_label=self.collection.largest_label,
            sampled=sampled,
            acts_without_pairs=learner.clip_without_pairs,
        )

    def context(
        self,
        round_: int,
        clients: NDArray[np.int64],
        interactions: int,
        parameters: NDArray[np.float64],
        prefix: str = "",
    ) -> RoundContext:
        """The context of one round for these clients; shares are always those of a whole cohort."""
        return RoundContext(
            round=round_,
            shares=self.spec.population.cohort_size,
            clients=clients,
            counts=np.full(clients.size, interactions, dtype=np.int64),
            parameters=parameters,
            source=self.streams,
            prefix=prefix,
        )

    def claim(self) -> float:
        """The epsilon that the chain claims for one round; infinite without a claim."""
        return self.chain.eps_claimed(self._blank_context())

    def events(self) -> tuple[PrivacyEvent, ...]:
        """What the chain does to a message, for accounting."""
        always = self._acts_without_pairs
        return self.chain.events(self._blank_context(), acts_without_pairs=always)

    def warnings(self) -> tuple[str, ...]:
        """Wrong pairings in the chain, and claims that a message composes, in words."""
        context = self._blank_context()
        chain, parameters = self.chain.defenses, self.ranker.n_parameters
        found = warnings(chain, parameters, context, acts_without_pairs=self._acts_without_pairs)
        return (*found, *self._composed())

    def _composed(self) -> Iterator[str]:
        """What a message of several randomised metrics is worth."""
        behind = self.learner.interactions
        for defense in self.chain.links(MetricDefense):
            for claim in defense.claims(self._blank_context()) if behind > 1 else ():
                whole = composed(claim.epsilon, behind)
                yield (
                    f"{defense.name}: epsilon {claim.epsilon:.4g} is of one {claim.unit}; "
                    f"a message of {behind} composes {whole:.4g}"
                )

    @property
    def _acts_without_pairs(self) -> bool:
        return not isinstance(self.learner, ModelLearner) or self.learner.clip_without_pairs

    def noise(self) -> str | None:
        """The noise law of one message in words."""
        values = self.learner.values.size if isinstance(self.learner, MetricLearner) else 0
        return self.chain.noise(self._blank_context(), values)

    def _blank_context(self) -> RoundContext:
        nobody = np.empty(0, dtype=np.int64)
        return self.context(0, nobody, 0, np.zeros(self.ranker.n_parameters))
