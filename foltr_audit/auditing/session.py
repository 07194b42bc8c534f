"""The games of an audit on one global model: canaries, what is known of them exactly, and scored trials."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foltr_audit.audit_spec import AuditSpec
from foltr_audit.auditing.attack_scores import attack_scores
from foltr_audit.auditing.canaries import Canary, CanarySearch, extreme_directions, message_canaries
from foltr_audit.auditing.estimators import ESTIMATORS, LowerBound, Trials
from foltr_audit.auditing.games import Games
from foltr_audit.auditing.likelihood import Noise, exact_epsilon
from foltr_audit.auditing.scores import SCORES, Pair, trial_scores
from foltr_audit.auditing.scripted import Floats, ScriptedClients
from foltr_audit.errors import UsageError
from foltr_audit.fresh import FreshClients
from foltr_audit.noise_laws import GammaShare
from foltr_audit.progress import Progress
from foltr_audit.records.privacy import Noised, PrivacyEvent, Summed
from foltr_audit.setup import Setup

_FEWEST = 60  # trials that choose score and threshold
_AS_GOOD, _BY_CHANCE = 0.8, 0.25
"""A score that promises so much of the best one's bound, less what luck may do, comes before later ones."""


class Session:
    """The games of an audit on one global model."""

    def __init__(
        self,
        setup: Setup,
        protocol: AuditSpec,
        fresh: FreshClients,
        parameters: Floats,
        progress: Progress,
    ) -> None:
        """Nothing is searched or played yet; `parameters` (P,) is the global model."""
        self.setup = setup
        self.protocol = protocol
        self.progress = progress
        self.fresh = fresh
        self.clients = ScriptedClients(setup, fresh.data, parameters)
        self.arriving = self._arriving()
        self.games = Games(
            self.clients,
            count=protocol.trials + self.choosing,
            messages=protocol.messages,
            arriving=self.arriving,
            interactions=protocol.interactions,
            origin=fresh.origin,
            progress=progress,
        )

    @property
    def choosing(self) -> int:
        """Trials under each hypothesis that choose score and threshold and are not evaluated."""
        return max(_FEWEST, self.protocol.trials // 4)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What the chain does to a message."""
        return self.setup.events()

    def _arriving(self) -> int:
        """Messages in a sum: those of the cohort that do not drop out; secure sums have a least number."""
        fewest = [event.at_least for event in self.events if isinstance(event, Summed)]
        cohort = self.setup.spec.population.cohort_size
        return min(cohort, max(1, *fewest, round(cohort * (1 - self.protocol.drop_out))))

    def canary(self, name: str, unit: str) -> Canary:
        """The canary of a name for a unit.

        Raises:
            UsageError: there is none for this chain or these data.
        """
        if name == "message":
            several = message_canaries(
                self.setup, self.clients.parameters, extreme_directions(self.clients.parameters.size)
            )
            return max(several, key=self._size)
        laws = [event.law for event in self.events if isinstance(event, Noised)]
        order = 1 if any(isinstance(law, GammaShare) for law in laws) else 2
        search = CanarySearch(self.clients, self.fresh, self.protocol.interactions, order)
        total = 0 if name == "data:typical" else self.fresh.queries.size
        with self.progress.task(f"search {name}, {unit}", total) as tick:
            return search.find(name, unit, tick)

    def _size(self, canary: Canary) -> tuple[float, float]:
        """How far apart two models are: by their exact loss in a sum; of equals, by their L2 distance.

        The loss of one coordinate shows in trials more often than the same loss spread over many.
        """
        loss = exact_epsilon(Noise.of(self.events, self.arriving), self.games, canary, 0.0) or 0.0
        shift = np.subtract(*self.games.means(canary))
        return float(f"{loss:.9g}"), float(np.linalg.norm(shift))

    def exact(self, canary: Canary, view: str, delta: float) -> float | None:
        """The loss of exactly this pair; see `exact_epsilon`."""
        return exact_epsilon(self.noise(view), self.games, canary, delta)

    def noise(self, view: str) -> Noise:
        """What stands between a message without noise and what is seen."""
        return Noise.of(self.events, self.arriving if self.sums(view) else None)

    @property
    def masked(self) -> bool:
        """Whether secure aggregation leaves the server nothing but sums."""
        return any(isinstance(event, Summed) for event in self.events)

    def sums(self, view: str) -> bool:
        """Whether an observer sees sums only."""
        return view == "aggregate" or (view == "individual" and self.masked)

    def trials(self, canary: Canary, view: str) -> tuple[str, Trials]:
        """The best score on the separate part, by name, and the trials that it makes.

        Raises:
            UsageError: the protocol's score is not computable here.
        """
        summed = self.sums(view)
        wanted = SCORES if self.protocol.score == "auto" else (self.protocol.score,)
        if set(wanted) <= set(SCORES):
            seen = self.games.play(canary, summed=summed)
            dtype = "" if summed else self.setup.spec.trace.dtype
            scored = trial_scores(seen, self.noise(view).law, self.learning, wanted, dtype)
        else:
            scored = attack_scores(self.games, canary, self.protocol.score, summed=summed)
        if not scored:
            raise UsageError(f"--score {wanted[0]}: not computable for this chain and view; expected auto")
        promised = {name: self._promise(pair) for name, pair in scored.items()}
        enough = _AS_GOOD * max(promised.values()) - _BY_CHANCE
        best = next(name for name in scored if promised[name] >= enough)
        fitted = self.learning if best == "discriminant" else 0
        zero, one = scored[best]
        return best, split((zero[fitted:], one[fitted:]), self.choosing - fitted)

    @property
    def learning(self) -> int:
        """The first trials under each hypothesis: what a discriminant is fitted to, and nothing else."""
        return self.choosing // 3

    def _promise(self, pair: Pair) -> float:
        """The bound that a score shows on the separate part, without what a discriminant was fitted to."""
        there = slice(self.learning, self.choosing)
        half = (self.choosing - self.learning) // 2
        seen = split((pair[0][there], pair[1][there]), half)
        rng = np.random.Generator(np.random.Philox(0))  # which this estimator does not draw from
        return ESTIMATORS["clopper-pearson"](
            seen, delta=0.0, confidence=self.protocol.confidence, rng=rng
        ).epsilon

    def estimates(self, trials: Trials, delta: float, place: str, *, gaussian: bool) -> Iterator[LowerBound]:
        """What estimators make of the same trials; `place` names their random streams.

        Gaussian-DP is asked with a delta only, and where Gaussian noise is all that is random.
        """
        for name, estimator in ESTIMATORS.items():
            if name == "gaussian-dp" and (delta == 0 or not gaussian):
                continue
            rng = self.setup.streams.generator(f"audit/{name}/{place}")
            yield estimator(trials, delta=delta, confidence=self.protocol.confidence, rng=rng)


def split(pair: Pair, choosing: int) -> Trials:
    """Scores with the first `choosing` of each hypothesis set apart."""
    zero, one = pair
    return Trials(
        choose_zero=zero[:choosing], choose_one=one[:choosing], zero=zero[choosing:], one=one[choosing:]
    )
