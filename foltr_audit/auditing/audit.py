"""Audits the claim of a chain of defenses: proven from above, measured from below by canary games."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from foltr_audit.accounting import Situation, UpperBound, over_rounds
from foltr_audit.audit_spec import AuditSpec
from foltr_audit.auditing.attack_scores import attack_scores
from foltr_audit.auditing.canaries import (
    Canary,
    CanarySearch,
    extreme_directions,
    message_canaries,
)
from foltr_audit.auditing.claims import Claim, claim_for
from foltr_audit.auditing.estimators import ESTIMATORS, LowerBound, Trials
from foltr_audit.auditing.games import Games
from foltr_audit.auditing.likelihood import Noise, exact_epsilon
from foltr_audit.auditing.scores import SCORES, Pair, trial_scores
from foltr_audit.auditing.scripted import Floats, ScriptedClients
from foltr_audit.auditing.verdict import Verdict, verdict_on
from foltr_audit.errors import UsageError, did_you_mean
from foltr_audit.fresh import FreshClients
from foltr_audit.noise_laws import GammaShare, Gaussian
from foltr_audit.plugins import Attack
from foltr_audit.progress import SILENT, Progress
from foltr_audit.records.privacy import Noised, PrivacyEvent, Summed
from foltr_audit.registry import make
from foltr_audit.setup import Setup
from foltr_audit.spec import AttackSpec

_FEWEST = 40  # trials that choose score and threshold
_AS_GOOD = 0.98  # of the best score's bound: an earlier score that promises so much is taken


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found about one claim: one view, one unit, one canary.

    Attributes:
        view, unit, canary: what is audited, by their names.
        about: the two inputs in words.
        messages: messages of the client that are pooled.
        eps_claimed: what is claimed for all of them together.
        delta: of the claim.
        upper: what is proven for these messages.
        upper_run: what is proven for all rounds of the training run together.
        exact: the loss of this pair, where it is computable.
        lower: what the trials show.
        estimates: what every estimator makes of the same trials.
        score: what told the hypotheses apart.
        verdict: see `verdict_on`.
        why: the verdict's reason.
    """

    view: str
    unit: str
    canary: str
    about: str
    messages: int
    eps_claimed: float
    delta: float
    upper: UpperBound
    upper_run: UpperBound
    exact: float | None
    lower: LowerBound
    estimates: tuple[LowerBound, ...]
    score: str
    verdict: Verdict
    why: str


class Audit:
    """One audit protocol of one experiment."""

    def __init__(self, setup: Setup, protocol: AuditSpec, progress: Progress = SILENT) -> None:
        """Nothing is searched or played yet.

        Raises:
            UsageError: an estimator or score that does not exist.
            DataError: no query with enough documents.
        """
        check_names(protocol)
        self.setup = setup
        self.protocol = protocol
        self.progress = progress
        self.fresh = FreshClients(setup, AttackSpec(on=protocol.on, min_documents=protocol.min_documents))
        _ = self.fresh.queries  # refuse data without a query before anything is trained on them

    def session(self, parameters: Floats) -> Session:
        """The games on a trained global model (P,)."""
        return Session(self.setup, self.protocol, self.fresh, parameters, self.progress)


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
        shares = setup.spec.population.cohort_size
        self.arriving = max(1, round(shares * (1 - protocol.drop_out)))
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

    def findings(self) -> Iterator[Finding]:
        """One finding per unit, canary and view.

        Raises:
            UsageError: a score or canary that cannot be played here.
        """
        for unit in self.protocol.units:
            claim = claim_for(unit, self.setup, self.protocol)
            if self.protocol.estimator == "gaussian-dp" and claim.delta == 0:
                raise UsageError(
                    "--estimator gaussian-dp: a Gaussian has no epsilon at delta 0; expected --delta above 0"
                )
            for name in self.protocol.canaries:
                canary = self._canary(name, unit)
                for view in self.protocol.views:
                    yield self._finding(canary, view, claim)

    def _canary(self, name: str, unit: str) -> Canary:
        if name == "message":
            several = message_canaries(
                self.setup, self.clients.parameters, extreme_directions(self.clients.parameters.size)
            )
            return max(several, key=self._size)
        order = 1 if any(isinstance(law, GammaShare) for law in self._laws) else 2
        search = CanarySearch(self.clients, self.fresh, self.protocol.interactions, order)
        total = 0 if name == "data:typical" else self.fresh.queries.size
        with self.progress.task(f"search {name}, {unit}", total) as tick:
            return search.find(name, unit, tick)

    @property
    def _laws(self) -> list[object]:
        return [event.law for event in self.events if isinstance(event, Noised)]

    def _size(self, canary: Canary) -> tuple[float, float]:
        """How far apart two models are: by their exact loss in a sum; of equals, by their L2 distance.

        The loss of one coordinate shows in trials more often than the same loss spread over many.
        """
        loss = exact_epsilon(Noise.of(self.events, self.arriving), self.games, canary, 0.0) or 0.0
        shift = np.subtract(*self.games.means(canary))
        return float(f"{loss:.9g}"), float(np.linalg.norm(shift))

    def _finding(self, canary: Canary, view: str, claim: Claim) -> Finding:
        protocol, masked = self.protocol, any(isinstance(event, Summed) for event in self.events)
        summed = view == "aggregate" or (view == "individual" and masked)
        noise = Noise.of(self.events, self.arriving if summed else None)
        exact = exact_epsilon(noise, self.games, canary, claim.delta)
        score, trials = self._trials(canary, noise, summed=summed)
        estimates = tuple(self._estimates(trials, claim.delta, f"{canary.name}/{canary.unit}/{view}"))
        chosen = self._estimator(claim.delta)
        lower = next(bound for bound in estimates if bound.estimator == chosen)
        situation = self._situation(canary.unit, view, claim.delta)
        upper, upper_run = over_rounds(
            self.events, situation, (protocol.messages, self.setup.spec.train.rounds)
        )
        total = claim.epsilon * (protocol.messages if protocol.claim is None else 1)
        verdict, why = verdict_on(
            total, upper.epsilon, exact, lower.epsilon, evidence=canary.name != "data:typical"
        )
        return Finding(
            view=view,
            unit=canary.unit,
            canary=canary.name,
            about=canary.about,
            messages=protocol.messages,
            eps_claimed=total,
            delta=claim.delta,
            upper=upper,
            upper_run=upper_run,
            exact=exact,
            lower=lower,
            estimates=estimates,
            score=score,
            verdict=verdict,
            why=why,
        )

    def _situation(self, unit: str, view: str, delta: float) -> Situation:
        return Situation(
            view=view,
            unit=unit,
            parameters=self.clients.parameters.size,
            shares=self.setup.spec.population.cohort_size,
            arriving=self.arriving,
            interactions=self.protocol.interactions,
            delta=delta,
        )

    def _trials(self, canary: Canary, noise: Noise, *, summed: bool) -> tuple[str, Trials]:
        """The best score on the separate part, by name, and the trials that it makes."""
        wanted = SCORES if self.protocol.score == "auto" else (self.protocol.score,)
        dtype = "" if summed else self.setup.spec.trace.dtype
        if set(wanted) <= set(SCORES):
            seen = self.games.play(canary, summed=summed)
            scored = trial_scores(seen, noise.law, self.choosing, wanted, dtype)
        else:
            scored = attack_scores(self.games, canary, self.protocol.score, summed=summed)
        if not scored:
            raise UsageError(f"--score {wanted[0]}: not computable for this chain and view; expected auto")
        promised = {name: self._promise(pair) for name, pair in scored.items()}
        best = next(name for name in scored if promised[name] >= _AS_GOOD * max(promised.values()))
        return best, split(scored[best], self.choosing)

    def _promise(self, pair: Pair) -> float:
        """The bound that a score shows on the part that is not evaluated."""
        half = self.choosing // 2
        seen = split((pair[0][: self.choosing], pair[1][: self.choosing]), half)
        rng = np.random.Generator(np.random.Philox(0))
        return ESTIMATORS["clopper-pearson"](
            seen, delta=0.0, confidence=self.protocol.confidence, rng=rng
        ).epsilon

    def _estimator(self, delta: float) -> str:
        if self.protocol.estimator != "auto":
            return self.protocol.estimator
        gaussian = self._laws and all(isinstance(law, Gaussian) for law in self._laws)
        return "gaussian-dp" if gaussian and delta > 0 else "clopper-pearson"

    def _estimates(self, trials: Trials, delta: float, place: str) -> Iterator[LowerBound]:
        for name, estimator in ESTIMATORS.items():
            if name == "gaussian-dp" and delta == 0:
                continue  # a Gaussian has no loss without a delta
            rng = self.setup.streams.generator(f"audit/{name}/{place}")
            yield estimator(trials, delta=delta, confidence=self.protocol.confidence, rng=rng)


def check_names(protocol: AuditSpec) -> None:
    """Refuse an estimator or score that does not exist, before anything runs.

    Raises:
        UsageError: an unknown name.
    """
    name, known = protocol.estimator, ("auto", *ESTIMATORS)
    if name not in known:
        raise UsageError(f"--estimator: unknown estimator {name!r}; {did_you_mean(name, known)}")
    if protocol.score not in ("auto", *SCORES):
        make(Attack, protocol.score)


def split(pair: Pair, choosing: int) -> Trials:
    """Scores with the first `choosing` of each hypothesis set apart."""
    zero, one = pair
    return Trials(
        choose_zero=zero[:choosing], choose_one=one[:choosing], zero=zero[choosing:], one=one[choosing:]
    )
