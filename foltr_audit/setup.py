"""From a Spec and its data to the live objects of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foltr_audit.chain import Chain, parse_chain
from foltr_audit.client import ClientRules
from foltr_audit.errors import UsageError
from foltr_audit.learners.fpdgd import FPDGD
from foltr_audit.pairings import warnings
from foltr_audit.plugins import ClickModel, Learner, PrivacyEvent, RoundContext, Scenario
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
    def learner(self) -> FPDGD:
        """The learner.

        Raises:
            UsageError: a learner whose messages are no models; this version simulates `fpdgd`.
        """
        learner = make(Learner, self.spec.train.learner)
        if not isinstance(learner, FPDGD):
            raise UsageError(f"learner {learner.name}: expected fpdgd or a learner built on it")
        return learner

    def rules(self, click_model: str, *, sampled: bool) -> ClientRules:
        """What clients do, under a click model, with sampled or deterministic lists."""
        return ClientRules(
            ranker=self.ranker,
            learner=self.learner,
            chain=self.chain,
            click_model=make(ClickModel, click_model),
            largest_label=self.collection.largest_label,
            sampled=sampled,
            acts_without_pairs=self.learner.clip_without_pairs,
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
        always = self.learner.clip_without_pairs
        return self.chain.events(self._blank_context(), acts_without_pairs=always)

    def warnings(self) -> tuple[str, ...]:
        """Wrong pairings in the chain, in words."""
        always = self.learner.clip_without_pairs
        context = self._blank_context()
        chain, parameters = self.chain.defenses, self.ranker.n_parameters
        return tuple(warnings(chain, parameters, context, acts_without_pairs=always))

    def noise(self) -> str | None:
        """The noise law of one message in words."""
        return self.chain.noise(self._blank_context())

    def _blank_context(self) -> RoundContext:
        nobody = np.empty(0, dtype=np.int64)
        return self.context(0, nobody, 0, np.zeros(self.ranker.n_parameters))
