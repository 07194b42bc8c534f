"""Runs the Specs of a plan one after the other, and keeps what a report needs of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foltr_audit import atomic
from foltr_audit.experiment import Trained, attack_fresh, attack_recording, train
from foltr_audit.fresh import FreshClients
from foltr_audit.judge import Evidence
from foltr_audit.load import load_collection
from foltr_audit.plan import Plan
from foltr_audit.progress import SILENT, Progress
from foltr_audit.records import Collection
from foltr_audit.run_folder import RESULTS, RunFolder, claim_folder, locked, writing
from foltr_audit.setup import Setup
from foltr_audit.spec import Spec

PLAN = "plan.toml"


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """One Spec that was run.

    Attributes:
        setup: the Spec with its data.
        trained: the trained model.
        undefended: offline nDCG@10 of the same training without a defense; None if it was not asked for.
        evidence: judged attacks by the click model of the attacked clients.
        too_short: attacked queries that were left out for having too few documents.
    """

    setup: Setup
    trained: Trained
    undefended: float | None = None
    evidence: dict[str, Evidence] | None = None
    too_short: int = 0


class Study:
    """Runs Specs; data sets and undefended twins that several Specs share are made once."""

    def __init__(self, progress: Progress = SILENT, data: Collection | None = None) -> None:
        """Nothing is loaded before the first Spec runs, and nothing at all if `data` is given."""
        self.progress = progress
        self.data = data
        self._collections: dict[object, Collection] = {}
        self._undefended: dict[str, float] = {}

    def setup(self, spec: Spec) -> Setup:
        """A Spec with its data."""
        if self.data is not None:
            return Setup(spec, self.data)
        key = (spec.data, spec.seed)
        if key not in self._collections:
            self._collections[key] = load_collection(spec.data, spec.seed)
        return Setup(spec, self._collections[key])

    def run(self, spec: Spec, folder: RunFolder | None = None) -> Cell:
        """Train a Spec and, if it has an attack protocol, attack it."""
        setup, protocol = self.setup(spec), spec.attack
        if protocol is None:
            return Cell(setup=setup, trained=train(setup, folder, progress=self.progress))
        clients = FreshClients(setup, protocol) if protocol.target == "fresh" else None
        if clients is not None:
            _ = clients.queries  # refuse data without a query to attack before training on them
        keep = protocol.target == "training"
        trained = train(setup, folder, keep=keep, progress=self.progress)
        if clients is not None:
            evidence = attack_fresh(setup, clients, trained.parameters, folder, self.progress)
        else:
            evidence = {
                spec.train.click_model: attack_recording(
                    trained.recording, setup.collection, protocol.methods, setup.streams, self.progress
                )
            }
        return Cell(
            setup=setup,
            trained=trained,
            undefended=self._twin(spec, trained),
            evidence=evidence,
            too_short=clients.too_short if clients else 0,
        )

    def _twin(self, spec: Spec, trained: Trained) -> float:
        """Offline nDCG@10 of the same training without defense."""
        twin = spec.undefended
        if spec.defense == twin.defense:
            self._undefended[twin.hash] = trained.ndcg
        if twin.hash not in self._undefended:
            self._undefended[twin.hash] = train(self.setup(twin), progress=self.progress).ndcg
        return self._undefended[twin.hash]


@dataclass(frozen=True)
class Output:
    """Where a plan's Runs go: one Spec straight into the folder, several into a folder each."""

    path: Path
    resume: bool = False
    overwrite: bool = False

    def run(self, plan: Plan, study: Study) -> list[Cell]:
        """Run a plan into the folder, which is locked meanwhile.

        Raises:
            UsageError: the folder is in use, not empty without `resume` or `overwrite`, or of another Spec.
        """
        with locked(self.path):
            claim_folder(self.path, resume=self.resume, overwrite=self.overwrite, plan=PLAN)
            if len(plan.specs) == 1:
                only = plan.specs[0]
                return [study.run(only, RunFolder.create(self.path, only, resume=self.resume))]
            with writing(self.path):
                atomic.write_text(self.path / PLAN, plan.toml)
            return [study.run(spec, self._cell(spec)) for spec in plan.specs]

    def _cell(self, spec: Spec) -> RunFolder:
        return RunFolder.create(self.path / spec.hash[:12], spec, resume=self.resume)

    def save_results(self, text: str) -> None:
        """Write the results of the whole plan."""
        with writing(self.path):
            atomic.write_text(self.path / RESULTS, text + "\n")


def run_plan(plan: Plan, output: Output | None, study: Study) -> list[Cell]:
    """Run every Spec of a plan, into folders if `output` is given."""
    return [study.run(spec) for spec in plan.specs] if output is None else output.run(plan, study)
