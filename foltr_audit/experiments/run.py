"""One run: its records, the arrays that they describe, and what only this process holds of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from foltr_audit.core.pdgd import setting_text
from foltr_audit.core.plugins import Environment
from foltr_audit.core.plugins.answers import facts_of
from foltr_audit.core.records import Collection
from foltr_audit.core.records.population import EVERYBODY, SEVERAL, Population
from foltr_audit.core.results import AuditRecord, DataRecord, ProofRecord, RunRecord, UtilityRecord
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.data import path_name
from foltr_audit.core.settings.defaults import DELTA, UNIT
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.stages import AttackFindings, TrainResult
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.privacy.observer_views import VIEWS, attacked_view
from foltr_audit.simulation.client_population import ClientPopulation, population_facts
from foltr_audit.simulation.intent_metrics import Rows, evaluated_on
from foltr_audit.simulation.privacy_description import PrivacyDescription
from foltr_audit.simulation.setup import Setup, twin_specs

if TYPE_CHECKING:
    from foltr_audit.experiments.membership import MembershipFinding
    from foltr_audit.experiments.unlearning import UnlearningResult


@dataclass(frozen=True, kw_only=True)
class World:
    """Whose clicks trained the model, as objects.

    The environment is None where the scenario does not define how likely each intent is over time. A run is
    compared with its twins: the same Spec under other scenarios, by name.
    """

    population: Population = EVERYBODY
    environment: Environment | None = None
    twins: Mapping[str, Spec] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: Spec, clients: ClientPopulation) -> World:
        return cls(
            population=clients.population, environment=clients.environment, twins=twin_specs(spec, clients)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRecords:
    """The records of one Spec that was run.

    What is proven is, of a stored run, what `proofs_of` says; of another one of a round for the observer of
    the attacks, first without the lists.
    """

    spec: Spec
    record: RunRecord
    data: DataRecord
    utility: UtilityRecord
    proofs: tuple[ProofRecord, ...] = ()
    audits: tuple[AuditRecord, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Run(RunRecords):
    """One Spec that was run, without its data and messages; other findings than its protocols' are empty."""

    world: World = World()
    trained: TrainResult
    attacks: AttackFindings = field(default_factory=AttackFindings)
    membership: tuple[MembershipFinding, ...] = ()
    unlearning: UnlearningResult | None = None

    @property
    def rows(self) -> Rows:
        return self.trained.rounds


def run_record(setup: Setup) -> RunRecord:
    """What a setup runs."""
    facts, spec, clients = facts_of(setup.learner), setup.spec, setup.clients
    pairs, normaliser = facts.get("pairs"), facts.get("normaliser")
    claim = setup.privacy.claim()
    return RunRecord(
        run=spec.hash,
        learner=setup.learner.label,
        pdgd="none" if pairs is None or normaliser is None else setting_text(str(pairs), str(normaliser)),
        trained_on=clients.population.click_model(spec.train.click_model) or SEVERAL,
        claim=None if math.isinf(claim) else claim,
        per_round=clients.interactions * spec.population.cohort_size,
        groups=tuple(clients.population.groups),
        population=population_facts(clients, setup.collection.train, spec.train.click_model),
        warnings=setup.privacy.warnings(),
    )


def data_record(collection: Collection) -> DataRecord:
    """The facts of a data set."""
    several = collection.n_intents > 1
    return DataRecord(
        source=path_name(collection.source),
        intents=collection.n_intents if several else None,
        intents_from=path_name(collection.intents_from) if several and collection.intents_from else None,
        rows_read=None if collection.read is None else collection.read[0],
        rows_joined=None if collection.read is None else collection.n_documents,
        synthetic=collection.synthetic,
        normalised=collection.normalised,
        features=collection.n_features,
        largest_label=collection.largest_label,
        fold=collection.fold,
        fingerprint=collection.fingerprint,
        train=collection.train.n_queries,
        vali=collection.vali.n_queries,
        test=collection.test.n_queries,
        test_without_relevant=int((~collection.test.has_relevant).sum()),
    )


def utility_record(
    trained: TrainResult,
    undefended: float | None = None,
    *,
    validation: float | None = None,
    bytes_per_client: float | None = None,
) -> UtilityRecord:
    """How good a trained model is; a number that is not defined is None."""

    def known(value: float | None) -> float | None:
        return None if value is None or math.isnan(value) else value

    return UtilityRecord(
        ndcg=known(trained.ndcg),
        untrained=known(trained.untrained),
        ceiling=known(trained.ceiling),
        validation=known(validation),
        undefended=known(undefended),
        evaluated_on=evaluated_on(trained.rounds),
        online_sum=known(trained.online_sum),
        online_mean=known(trained.online_mean),
        maxrr_last=known(trained.maxrr_last),
        clipped=known(trained.clipped),
        bytes_per_client=bytes_per_client,
    )


def mean_utility(records: Sequence[UtilityRecord], name: str) -> float | None:
    """Mean of a field over records; None where one of them does not know it."""
    values = [getattr(record, name) for record in records]
    return None if None in values else float(np.mean(values))


def proofs_of(privacy: PrivacyDescription, attack: AttackSpec | None = None) -> tuple[ProofRecord, ...]:
    """What is proven for one interaction: for each view of all rounds, and of the messages of an attack.

    The observer sees all rounds: noise that is correlated over rounds hides a click less from whoever also
    sees the sums of later ones. Nothing is said of an attack on sums: it makes them itself, of other messages
    than a round has.
    """
    sent = privacy.clients.interactions
    proofs = [_proof(privacy, "all rounds", view, sent) for view in VIEWS]
    if attack is not None and not attack.sums:
        view = attacked_view(attack.view, attack.hide)
        proofs.append(
            _proof(privacy, "attacked", view, attack.interactions if attack.target == "fresh" else sent)
        )
    return tuple(proofs)


def _proof(
    privacy: PrivacyDescription, of: Literal["all rounds", "attacked"], view: str, interactions: int
) -> ProofRecord:
    seen = privacy.situation(view, UNIT, interactions=interactions, rounds=None)
    promise = ProvenPromise.of(privacy.events(), seen, DELTA)
    return ProofRecord(
        of=of,
        view=view,
        unit=UNIT,
        interactions=interactions,
        rounds=seen.rounds,
        upper=promise.upper,
        auc=promise.curve.auc,
    )
