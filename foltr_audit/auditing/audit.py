"""Audits the claim of a chain of defenses: proven from above, measured from below by canary games."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from foltr_audit.accounting import Situation, UpperBound, upper_bound
from foltr_audit.audit_spec import AuditSpec
from foltr_audit.auditing.canaries import Canary
from foltr_audit.auditing.claims import Claim, claim_for
from foltr_audit.auditing.estimators import ESTIMATORS, LowerBound
from foltr_audit.auditing.scores import SCORES
from foltr_audit.auditing.scripted import Floats
from foltr_audit.auditing.session import Session
from foltr_audit.auditing.verdict import Verdict, verdict_on
from foltr_audit.errors import PluginError, UsageError, did_you_mean
from foltr_audit.fresh import FreshClients
from foltr_audit.noise_laws import Gaussian
from foltr_audit.plugins import Attack
from foltr_audit.progress import SILENT, Progress
from foltr_audit.registry import make
from foltr_audit.setup import Setup
from foltr_audit.spec import AttackSpec


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found about one claim: one view, one unit, one canary.

    Attributes:
        view, unit, canary: what is audited, by their names.
        about: the two inputs in words.
        model: the global model that the client starts from, `first` or `trained`.
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
    model: str
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
            UsageError: an estimator or score that does not exist, or clients of different weights.
            DataError: no query with enough documents.
        """
        check_names(protocol)
        if not setup.alike_in_number:
            raise UsageError(
                f"audit: scenario {setup.spec.population.scenario}: clients have different numbers of "
                "interactions, and so weights, for which no bound is known here; expected equal numbers"
            )
        self.setup = setup
        self.protocol = protocol
        self.progress = progress
        self.fresh = FreshClients(setup, AttackSpec(on=protocol.on, min_documents=protocol.min_documents))
        _ = self.fresh.queries  # refuse data without a query before anything is trained on them

    def session(self, parameters: Floats) -> Session:
        """The games on one global model (P,)."""
        return Session(self.setup, self.protocol, self.fresh, parameters, self.progress)

    def findings(self, models: Mapping[str, Floats]) -> Iterator[Finding]:
        """One finding per unit, canary and view.

        Args:
            models: global models (P,) by the names of `AuditSpec.models`. A claim is about every round: a
                searched canary is played at the model where its shift is largest, others at the last one.

        Raises:
            UsageError: a score or canary that cannot be played here.
        """
        sessions = {str(name): self.session(models[name]) for name in self.protocol.models}
        for unit in self.protocol.units:
            for name in self.protocol.canaries:
                model, canary = self._worst(sessions, name, unit)
                for view in self.protocol.views:
                    yield self._finding(sessions[model], model, canary, view)

    def _worst(self, sessions: Mapping[str, Session], name: str, unit: str) -> tuple[str, Canary]:
        """A canary with the model that it is played at; of equals the first."""
        last = self.protocol.models[-1]
        if name in ("data:typical", "message"):
            return last, sessions[last].canary(name, unit)
        found = {model: session.canary(name, unit) for model, session in sessions.items()}
        model = max(found, key=lambda each: found[each].shift)
        return model, found[model]

    def _finding(self, session: Session, model: str, canary: Canary, view: str) -> Finding:
        claim = claim_for(canary.unit, view, self.setup, self.protocol, sums=session.sums(view))
        gaussian = isinstance(session.noise(view).law, Gaussian) and not session.noise(view).rounded
        chosen = self._estimator(claim, gaussian=gaussian)
        score, trials = session.trials(canary, view)
        place = f"{canary.name}/{canary.unit}/{view}"
        estimates = tuple(session.estimates(trials, claim.delta, place, gaussian=gaussian))
        lower = next(bound for bound in estimates if bound.estimator == chosen)
        upper, upper_run = self._upper(session, canary.unit, view, claim)
        exact = session.exact(canary, view, claim.delta)
        sure = not lower.assumes or chosen == "gaussian-dp"  # which is asked where it holds only
        verdict, why = verdict_on(
            claim.epsilon,
            upper.epsilon,
            exact,
            lower.epsilon if sure else 0.0,
            evidence=canary.name != "data:typical",
        )
        if not sure:
            why += f" ({chosen} takes for granted: {lower.assumes}; it refutes nothing)"
        return Finding(
            view=view,
            unit=canary.unit,
            canary=canary.name,
            about=canary.about,
            model=model,
            messages=self.protocol.messages,
            eps_claimed=claim.epsilon,
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

    def _upper(self, session: Session, unit: str, view: str, claim: Claim) -> tuple[UpperBound, UpperBound]:
        """What is proven for the played messages, and for the rounds of the whole run with their own B."""
        situation = Situation(
            view=view,
            unit=unit,
            parameters=session.clients.parameters.size,
            shares=self.setup.spec.population.cohort_size,
            arriving=None if session.masked else session.arriving,  # a secure sum may hold fewer
            interactions=self.protocol.interactions,
            rounds=self.protocol.messages,
            delta=claim.delta,
        )
        run = replace(
            situation, interactions=self.setup.learner.interactions, rounds=self.setup.spec.train.rounds
        )
        return upper_bound(session.events, situation), upper_bound(session.events, run)

    def _estimator(self, claim: Claim, *, gaussian: bool) -> str:
        if self.protocol.estimator == "gaussian-dp" and claim.delta == 0:
            raise UsageError(
                "--estimator gaussian-dp: a Gaussian has no epsilon at delta 0; expected --delta above 0"
            )
        if self.protocol.estimator == "gaussian-dp" and not gaussian:
            raise UsageError("--estimator gaussian-dp: expected a chain whose only noise is Gaussian")
        if self.protocol.estimator != "auto":
            return self.protocol.estimator
        return "gaussian-dp" if gaussian and claim.delta > 0 else "clopper-pearson"


def check_names(protocol: AuditSpec) -> None:
    """Refuse an estimator or score that does not exist, before anything runs.

    Raises:
        UsageError: an unknown name.
    """
    name, known = protocol.estimator, ("auto", *ESTIMATORS)
    if name not in known:
        raise UsageError(f"--estimator: unknown estimator {name!r}; {did_you_mean(name, known)}")
    if protocol.score not in ("auto", *SCORES):
        try:
            make(Attack, protocol.score)
        except PluginError as error:
            raise UsageError(f"--score: expected auto, {', '.join(SCORES)} or an attack; {error}") from error
