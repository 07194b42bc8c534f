"""Audits of the claims of a chain of defenses: bounds from above, canary games from below."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.canaries import Canary
from foltr_audit.auditing.declarations import DeclarationCheck, LinkTestInput, check_declarations, check_sums
from foltr_audit.auditing.estimators import ANYTIME, ESTIMATORS, FOR_NORMAL, TrialScores, nearly_normal
from foltr_audit.auditing.evaluation import Pair, about_best, every_bound, play_until_decided, split
from foltr_audit.auditing.games import OtherClients
from foltr_audit.auditing.played_rounds import PlayedGame, PlayedRounds, PlayedTrial, difference, played_bound
from foltr_audit.auditing.session import AuditSession, ChainClaim, ScoredTrials
from foltr_audit.auditing.trial_scores import LINEAR, SCORES
from foltr_audit.auditing.verdict import BROKEN, STRICT, is_proven, verdict_on
from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.results import AuditRecord, LowerBound
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.errors import PluginError, UsageError, suggest_name
from foltr_audit.privacy.accounting import RunBound, UpperBound, run_bound, upper_bound
from foltr_audit.privacy.events import OpaqueChange
from foltr_audit.privacy.observer_views import without_lists
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.progress import SILENT, Progress

_AT_ANY_LEVEL = {"one-run": "clopper-pearson"}
"""What contradicts a proof instead: at a delta above 0 `one-run` shows nothing at so high a confidence."""


class _CanaryGame(NamedTuple):
    """A canary, played in one view at the global models of one session."""

    session: AuditSession
    canary: Canary
    exact: float | None
    trials: ScoredTrials


class Audit:
    """One audit protocol of one experiment."""

    def __init__(self, setup: Setup, protocol: AuditSpec, progress: Progress = SILENT) -> None:
        """Nothing is searched or played yet.

        Raises:
            UsageError: an estimator or score that does not exist, or clients with different weights.
            DataError: no query with enough documents.
        """
        check_names(protocol)
        if not setup.clients.alike_in_number:
            raise UsageError(
                f"audit: scenario {setup.spec.population.scenario}: clients have different numbers of "
                "interactions, and so different weights; expected equal numbers"
            )
        self.setup = setup
        self.protocol = protocol
        self.progress = progress
        self.fresh = FreshClients(setup, AttackSpec(on=protocol.on, min_documents=protocol.min_documents))
        _ = self.fresh.queries  # refuse data without a query before anything is trained on them

    def session(
        self, models: Sequence[Floats], others: OtherClients | None = None, name: str = ""
    ) -> AuditSession:
        """The games whose messages start from some global models, (P,) each, of one name."""
        return AuditSession(self.setup, self.protocol, self.fresh, models, self.progress, others, name)

    def findings(self, models: Mapping[str, Sequence[Floats]]) -> Iterator[AuditRecord]:
        """One result per unit, canary and view.

        A claim is about every round. So a canary is searched and played at each of the models, and the game
        with the largest bound on the part of its trials for choosing is evaluated.

        `models` are those that the messages of a game start from, (P,), one for each message, by name.
        """
        sessions = self._sessions(models)
        # Canaries that need no search are played at the last models.
        searched = [
            [
                (session, session.canary(name, unit))
                for session in (sessions[-1:] if name in ("data:typical", "message") else sessions)
            ]
            for unit in self.protocol.units
            for name in self.protocol.canaries
        ]
        declared = self._declared(sessions, [game for several in searched for game in several])
        games = [
            (view, self._worst(several, view))
            for several in searched
            for view in self.protocol.views_of(several[0][1].unit)
        ]
        # Trials of the evaluated canaries in whole rounds; none of a chain that does nothing.
        distinct = {id(game.canary): (game.session, game.canary) for _, game in games}
        views = {view for view, _ in games}
        played = PlayedRounds(sessions[-1]).play(list(distinct.values()), views) if declared.acts else []
        for view, game in games:
            yield self._finding(game, view, declared, played)

    def _sessions(self, models: Mapping[str, Sequence[Floats]]) -> list[AuditSession]:
        """The games at each of the models.

        Declared noise does not depend on the model, so sessions share other clients, at the last models.
        Whether their noise is as declared is tested.
        """
        *names, last = models
        at_last = self.session(models[last], name=last)
        unknown = any(isinstance(event, OpaqueChange) for _, event in at_last.acts)
        others = None if unknown else at_last.games.others
        return [*(self.session(models[name], others, name) for name in names), at_last]

    def _declared(self, sessions: Sequence[AuditSession], games: Sequence[PlayedGame]) -> DeclarationCheck:
        """Test the links' declarations on the messages of canaries, and of clients that learn nothing.

        And those of noise in sums. Where all is as declared, games draw that of other clients by its law.
        """
        inputs = [LinkTestInput.resting(session.name, session.clients) for session in sessions]
        inputs += [
            LinkTestInput.of_canary(session.name, session.clients, canary) for session, canary in games
        ]
        last = sessions[-1]
        declared = check_declarations(last.acts, last.clients, inputs, last.interactions)
        views = {view for unit in self.protocol.units for view in self.protocol.views_of(unit)}
        sizes = sorted({last.members(view) for view in views} - {1})
        tested = {members: check_sums(last, members) for members in sizes}
        for found in tested.values():
            if found.failed is not None:
                declared = declared.with_broken(dict([found.failed]))
        for members, found in tested.items():
            if found.law is not None and not declared.broken:
                last.games.others.follow(members, found.law)
        return declared

    def _worst(self, several: Sequence[PlayedGame], view: str) -> _CanaryGame:
        """The game to evaluate: the largest exact loss among those with about the largest promised bound."""
        games = []
        for session, canary in several:
            trials = session.first_trials(canary, view)
            exact = session.exact(canary, view, session.claim(canary.unit, view).delta)
            games.append(_CanaryGame(session, canary, exact, trials))
        # Among games that promise about as much the exact loss decides, which does not vary by chance.
        promised = [game.session.promised(game.trials.choose) for game in games]
        likely = [games[number] for number in about_best(promised)]
        return max(likely, key=lambda game: (game.exact or 0.0, game.canary.shift))

    def _finding(
        self, game: _CanaryGame, view: str, declared: DeclarationCheck, played: Sequence[PlayedTrial]
    ) -> AuditRecord:
        session, canary = game.session, game.canary
        claim = session.claim(canary.unit, view)
        normal = game.trials.score in LINEAR and nearly_normal(session.noise(view).law, session.widest_grid)
        chosen = self._estimator(claim, normal=normal)
        upper, run = self._upper(session, canary.unit, view, claim, declared)
        trials = self._played(game, view, claim, upper)
        streams, purpose = self.setup.streams, f"{canary.name}/{canary.unit}"

        def bounds(among: Collection[str], confidence: float) -> tuple[LowerBound, ...]:
            return tuple(
                every_bound(
                    trials,
                    lambda name: streams.generator(f"audit/{name}/{purpose}"),
                    delta=claim.delta,
                    confidence=confidence,
                    normal=normal,
                    among=among,
                )
            )

        estimates = bounds(ANYTIME if self.protocol.stop_early else ESTIMATORS, self.protocol.confidence)
        (surest,) = bounds([_AT_ANY_LEVEL.get(chosen, chosen)], 1.0 - STRICT)
        lower = next(bound for bound in estimates if bound.estimator == chosen)
        own = [trial for trial in played if trial.game[1] is canary]
        in_rounds = played_bound(own, view, delta=claim.delta, confidence=1.0 - STRICT)
        alarm = STRICT / (len(self.protocol.views) * len(self.protocol.canaries) * len(self.protocol.units))
        # The exact loss is computed from the declared law, which a broken link does not follow.
        exact = None if declared.broken else game.exact
        # What estimators for normal noise assume was checked by `nearly_normal`.
        verdict, why = verdict_on(
            claimed=claim.epsilon,
            proven=upper.epsilon,
            exact=exact,
            measured=lower.epsilon,
            strict=max(surest.epsilon, in_rounds),
            differs="" if declared.broken else difference(played, view, session.members(view), alarm),
            broken=declared.why if declared.broken else "",
            worst_case=canary.name != "data:typical",
            believed=declared.believed,
        )
        if lower.trials < self.protocol.trials:
            why += f"; stopped after {lower.trials} of {self.protocol.trials} trials"
        return AuditRecord(
            view=view,
            unit=canary.unit,
            canary=canary.name,
            colluders=self.protocol.colluders if without_lists(view) == "colluding" else None,
            pair=canary.about,
            model=session.name,
            interactions=session.interactions,
            messages=self.protocol.messages,
            claim=None if math.isinf(claim.epsilon) else claim.epsilon,
            delta=claim.delta,
            upper=upper,
            whole_run=run,
            exact=exact,
            lower=lower,
            estimates=estimates,
            score=game.trials.score,
            declared=declared.state,
            declared_why=declared.why,
            verdict=verdict,
            why=why,
        )

    def _played(self, game: _CanaryGame, view: str, claim: ChainClaim, upper: UpperBound) -> TrialScores:
        """The trials of a game: all of them, or until the claim is decided.

        What is proven is only refuted by trials that contradict the proof.
        """
        first = game.trials
        if not self.protocol.stop_early:
            # Trials share no noise of other clients, and none on the sum.
            alone = game.session.members(view) == 1 and not game.session.released(view)
            return split(first.pair, first.choosing, independent=alone)

        def play(trials: range) -> Pair:
            return game.session.evaluated(game.canary, view, first.score, trials)

        proven = is_proven(claim.epsilon, upper.epsilon)
        return play_until_decided(
            first.choose,
            play,
            claim=claim.epsilon,
            delta=claim.delta,
            confidence=1.0 - STRICT if proven else self.protocol.confidence,
            most=self.protocol.trials,
        )

    def _upper(
        self, session: AuditSession, unit: str, view: str, claim: ChainClaim, declared: DeclarationCheck
    ) -> tuple[UpperBound, RunBound]:
        """What is proven for the played messages, and for all rounds of the run."""
        privacy = self.setup.privacy
        situation = privacy.situation(
            view,
            unit,
            interactions=session.interactions,
            rounds=self.protocol.messages,
            delta=claim.delta,
            members=session.in_sums,
        )
        events = privacy.events(declared.acts)
        upper, run = upper_bound(events, situation), run_bound(events, privacy.lifetime(situation))
        if declared.broken and not np.isfinite(upper.epsilon):
            upper = replace(upper, how=f"{BROKEN}: {declared.why}")
        return upper, run

    def _estimator(self, claim: ChainClaim, *, normal: bool) -> str:
        asked = self.protocol.estimator
        if asked in FOR_NORMAL and claim.delta == 0:
            raise UsageError(
                f"--estimator {asked}: a Gaussian has no epsilon at delta 0; expected --delta above 0"
            )
        if asked in FOR_NORMAL and not normal:
            raise UsageError(
                f"--estimator {asked}: expected a chain whose only noise is normal or nearly so, and a "
                f"score among {', '.join(LINEAR)}"
            )
        if asked != "auto":
            return asked
        if self.protocol.stop_early:
            return ANYTIME[0]
        return "gaussian-dp" if normal and claim.delta > 0 else "one-run"


def check_names(protocol: AuditSpec) -> None:
    """Refuse an estimator or score that does not exist, before anything runs."""
    name, known = protocol.estimator, ("auto", *ESTIMATORS)
    if name not in known:
        raise UsageError(f"--estimator: unknown estimator {name!r}; {suggest_name(name, known)}")
    if protocol.score not in ("auto", *SCORES):
        try:
            make(Attack, protocol.score)
        except PluginError as error:
            raise UsageError(f"--score: expected auto, {', '.join(SCORES)} or an attack; {error}") from error
