"""Runs the Specs of a plan one after the other, and keeps what a report needs of each."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from foltr_audit.core.plugins.registry import NOT_SAVED, refuse_fleeting
from foltr_audit.core.records import Collection
from foltr_audit.core.results import AuditRecord, ProofRecord
from foltr_audit.core.settings.attack import AttackSpec, refuse_unknown_queries
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.experiment import Spec, first_difference
from foltr_audit.data.load import load_collection
from foltr_audit.errors import UsageError
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run, World, data_record, run_record, utility_record
from foltr_audit.experiments.runs.folder import (
    PLAN,
    RESULTS,
    SPEC,
    RunFolder,
    claim_folder,
    empty_runs,
    lock_folder,
    read_plan,
    report_write_errors,
)
from foltr_audit.experiments.stages import (
    AttackFindings,
    TrainResult,
    attack_fresh,
    attack_training,
    first_model,
    train,
)
from foltr_audit.experiments.store import pack_run
from foltr_audit.experiments.versions import computed_again
from foltr_audit.judge.task import NothingToReadError
from foltr_audit.privacy.observer_views import attacked_view, without_lists
from foltr_audit.recorder import atomic_files
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.setup import Setup, number_intents, twin_specs
from foltr_audit.utils.arrays import Floats, reuse_freed_memory
from foltr_audit.utils.progress import SILENT, Progress

if TYPE_CHECKING:
    from foltr_audit.experiments.membership import MembershipFinding
    from foltr_audit.experiments.unlearning import UnlearningResult


_LOG = logging.getLogger(__name__)


def proven_of(setup: Setup, protocol: AttackSpec) -> tuple[ProofRecord, ...]:
    """What is proven for the observer of attacks: without the shown lists, and with them if it sees them."""
    view = attacked_view(protocol.view, protocol.hide)
    return tuple(setup.privacy.proven(each) for each in dict.fromkeys((without_lists(view), view)))


class Runner:
    """Runs Specs; keeps the last data set and the last training, and trains each undefended twin once."""

    def __init__(
        self, progress: Progress = SILENT, data: Collection | None = None, *, with_undefended: bool = True
    ) -> None:
        """Nothing is loaded before the first Spec runs, and nothing at all if `data` is given.

        `with_undefended`: train the undefended twin of every attacked Spec, and prove what its Run reports.
        """
        reuse_freed_memory()
        self.progress = progress
        self.data = data
        self.with_undefended = with_undefended
        self._last: tuple[object, Collection] | None = None
        self._trained: tuple[Spec, TrainResult] | None = None
        self._undefended: dict[str, float] = {}

    def setup(self, spec: Spec) -> Setup:
        """A Spec with its data; the last data set stays in memory."""
        if self.data is not None:
            return Setup(spec, number_intents(spec, self.data))
        key = (spec.data, spec.seed)
        if self._last is None or self._last[0] != key:
            self._last = None  # two data sets may not fit into memory
            self._last = (key, load_collection(spec.data, spec.seed))
            _LOG.info("data: %r", self._last[1])
        return Setup(spec, number_intents(spec, self._last[1]))

    def with_twins(self, plan: Plan) -> Plan:
        """A plan in which each Spec is followed by its twins; equal Specs are run once.

        Raises:
            UsageError: a scenario that does not fit the data, or no Spec that has a twin.
        """
        specs = [
            one for spec in plan.specs for one in (spec, *twin_specs(spec, self.setup(spec).clients).values())
        ]
        found = Plan(tuple(dict.fromkeys(specs)))
        if len(found.specs) == len(plan.specs):
            names = ", ".join(dict.fromkeys(spec.population.scenario for spec in plan.specs))
            raise UsageError(f"--twins: scenario {names} has no twin; expected a scenario that has")
        return found

    def run(self, spec: Spec, folder: RunFolder | None = None) -> Run:
        """Train a Spec, and do what its protocols ask for."""
        setup, protocol, attacks = self.setup(spec), spec.attack, AttackFindings()
        audits: tuple[AuditRecord, ...] = ()
        membership: tuple[MembershipFinding, ...] = ()
        unlearning: UnlearningResult | None = None
        if protocol is not None:
            trained, attacks = self._attack(setup, protocol, folder)
        elif spec.audit is not None:
            trained, audits = self._audit(setup, spec.audit, folder)
        else:  # the history of what is unlearned is attacked
            trained = train(setup, folder, keep=spec.unlearning is not None, progress=self.progress)
        undefended = None
        if self.with_undefended and (protocol is not None or spec.membership is not None):
            undefended = self._twin(spec, trained)
        # These are slow to import.
        if spec.membership is not None:
            from foltr_audit.experiments.membership import infer_membership

            membership = infer_membership(setup, self.progress)
        if spec.unlearning is not None:
            from foltr_audit.experiments.unlearning import unlearn

            unlearning = unlearn(setup, trained.recording, self.progress)
        run = Run(
            spec=spec,
            record=run_record(setup),
            data=data_record(setup.collection),
            utility=utility_record(trained, undefended),
            world=World.of(spec, setup.clients),
            trained=replace(trained, recording=None),
            attacks=attacks,
            proofs=proven_of(setup, protocol) if protocol is not None and self.with_undefended else (),
            audits=audits,
            membership=membership,
            unlearning=unlearning,
        )
        if folder is not None:
            # Of lists, `attack --trace` judges the trace again.
            folder.save(pack_run(run, setup, lists=False))
        return run

    def _train(self, setup: Setup, folder: RunFolder | None = None) -> TrainResult:
        """Train a Spec whose messages nobody attacks, unless it is that of the last Spec."""
        if folder is not None:
            return train(setup, folder, progress=self.progress)
        key = setup.spec.only_trained
        if self._trained is None or self._trained[0] != key:
            self._trained = key, replace(train(setup, progress=self.progress), recording=None)
        return self._trained[1]

    def _attack(
        self, setup: Setup, protocol: AttackSpec, folder: RunFolder | None
    ) -> tuple[TrainResult, AttackFindings]:
        """Train, and attack fresh clients or the training rounds; attacks may have nothing to read."""
        refuse_unknown_queries(protocol.queries, setup.collection)
        if protocol.target == "training":
            trained = train(setup, folder, keep=True, progress=self.progress)
            return trained, attack_training(setup, protocol, trained, self.progress)
        clients = FreshClients(setup, protocol)
        _ = clients.queries  # refuses data without a query to attack, before the training
        trained = self._train(setup, folder)
        try:
            found = attack_fresh(setup, clients, trained.parameters, folder, self.progress)
        except NothingToReadError as error:  # no sum over fresh clients was opened
            return trained, AttackFindings(unread=str(error), too_short=clients.too_short)
        return trained, AttackFindings(found=found, too_short=clients.too_short)

    def _audit(
        self, setup: Setup, protocol: AuditSpec, folder: RunFolder | None
    ) -> tuple[TrainResult, tuple[AuditRecord, ...]]:
        """Train, and audit; what cannot be audited is refused before the training."""
        from foltr_audit.auditing.audit import Audit  # slow to import, and most commands run none

        _LOG.info("audit: %s in %s", "+".join(setup.spec.defense), ", ".join(protocol.views))
        audit, keep = Audit(setup, protocol, self.progress), setup.spec.unlearning is not None
        if keep or protocol.along:
            trained = train(setup, folder, keep=keep, along=protocol.along, progress=self.progress)
        else:
            trained = self._train(setup, folder)
        ends = {"first": first_model(setup), "trained": trained.parameters}
        models: dict[str, tuple[Floats, ...]] = {
            name: protocol.messages * (ends[name],) for name in protocol.models
        }
        return trained, tuple(audit.findings({"rounds": trained.along} if protocol.along else models))

    def _twin(self, spec: Spec, trained: TrainResult) -> float:
        """Offline nDCG@10 of the same training without defense."""
        twin = spec.undefended
        # An undefended Spec of an honest server is its own twin: its training is not repeated.
        if spec.only_trained == twin:
            self._undefended[twin.hash] = trained.ndcg
        if twin.hash not in self._undefended:
            self._undefended[twin.hash] = self._train(self.setup(twin)).ndcg
        return self._undefended[twin.hash]


@dataclass(frozen=True)
class RunOutput:
    """Where a plan's Runs go: one Spec straight into the folder, several into a folder each."""

    path: Path
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.resume and self.overwrite:
            raise UsageError("--resume and --overwrite: give one or the other")

    def run(self, plan: Plan, study: Runner) -> list[Run]:
        """Run a plan into the folder, which stays locked until it is done."""
        refuse_fleeting(plan.table(), NOT_SAVED)
        with lock_folder(self.path):
            claim_folder(self.path, resume=self.resume, overwrite=self.overwrite)
            self._refuse_other_plan(plan)
            one = len(plan.specs) == 1
            places = {spec: self.path if one else self.path / spec.hash[:12] for spec in plan.specs}
            self._clear_other_code(places)
            if not one:
                with report_write_errors(self.path):
                    atomic_files.write_text(self.path / PLAN, plan.toml)
            return [
                study.run(spec, RunFolder.create(place, spec, resume=self.resume))
                for spec, place in places.items()
            ]

    def _clear_other_code(self, places: Mapping[Spec, Path]) -> None:
        """Remove the Runs that other code began or made: nothing is made of two states of the code."""
        stale = [place for spec, place in places.items() if RunFolder(place).of_other_code(spec)]
        if stale:
            _LOG.warning(computed_again(len(stale), "Run"))
        for place in stale:
            empty_runs(place)

    def _refuse_other_plan(self, plan: Plan) -> None:
        """With --resume a folder of one Run keeps one Run, and a folder of several may only grow."""
        one, several = (self.path / SPEC).exists(), (self.path / PLAN).exists()
        if one and len(plan.specs) > 1:
            raise UsageError(f"--resume: {self.path} holds one Run; expected one, not {len(plan.specs)}")
        if several and len(plan.specs) == 1:
            raise UsageError(f"--resume: {self.path} holds several Runs; expected several, not one")
        if several:
            planned = {spec.hash for spec in plan.specs}
            lost = [spec for spec in read_plan(self.path).specs if spec.hash not in planned]
            if lost:
                difference = first_difference(lost[0].public, plan.specs[0].public)
                raise UsageError(f"--resume: {self.path} holds a Run that the plan lacks: {difference}")

    def save_results(self, text: str) -> None:
        """Write the results of the whole plan."""
        with report_write_errors(self.path):
            atomic_files.write_text(self.path / RESULTS, text + "\n")


def run_plan(plan: Plan, output: RunOutput | None, study: Runner) -> list[Run]:
    """Run every Spec of a plan, into folders if `output` is given."""
    cells = [study.run(spec) for spec in plan.specs] if output is None else output.run(plan, study)
    why = next((cell.attacks.unread for cell in cells if cell.attacks.unread), "")
    if why:
        raise NothingToReadError(why)
    return cells
