"""The subjects of a recorded Run or trace: what its messages leak, and its recorded nDCG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG
from foltr_audit.core.results import Estimate, Interval
from foltr_audit.core.settings.attack import changed_protocol
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.subjects import CheckedAttack, CheckReading, CheckSubject, printable, refusals
from foltr_audit.experiments.comparison.cells import system_aucs
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.experiments.runs.folder import MODEL, RunFolder, load_model
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.report.attack import recorded_report
from foltr_audit.report.documents import Row
from foltr_audit.report.results.compare_rows import ViewCeiling
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import Trace
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.progress import SILENT, Progress

_NO_TRUTH = "the trace holds no truth to score attacks with"
_NO_SPEC = "the trace holds no Spec, whose defenses proofs are of; expected a Run, or no --trace"
_NO_AUDIT = "a trace holds no audit; run one, without --trace"
_NO_TWIN = "a trace holds no training without a defense; run one, without --trace"


@dataclass(frozen=True)
class RunSubjects:
    """A recorded Run or trace.

    Attributes:
        subjects: one for each click model.
        config: what was attacked, as a plain table.
    """

    subjects: list[CheckSubject]
    config: dict[str, JsonValue]


def check_recorded(
    path: Path,
    limits: SystemLimits,
    methods: Sequence[str] = (),
    *,
    all_attacks: bool = True,
    data: str | None = None,
    seed: int | None = None,
    intents: str | None = None,
    progress: Progress = SILENT,
) -> RunSubjects:
    """Attack a recorded Run or trace if a limit needs it, and read its nDCG.

    Args:
        path: the Run folder or trace folder.
        limits: the limits, which decide what is computed.
        methods: the attacks; if empty, those that the Run names and the default ones.
        all_attacks: whether the AUC cannot be judged if an attack could not run.
        data: the data set, as for `TraceAttack.open`.
        seed: its seed.
        intents: the file of its intents.
        progress: receives the progress of all work.

    Raises:
        UsageError: the folder or the data do not exist, or no attack can run.
        TraceError: the folder is damaged, or neither a Run nor a trace.
    """
    recorded = TraceAttack.open(path, data=data, seed=seed, intents=intents)
    protocol = recorded.protocol.strengthened(recorded.header.content)
    if methods:
        protocol = changed_protocol(protocol, {"methods": tuple(methods)})
    recorded = replace(recorded, protocol=protocol)
    results: Sequence[Row] = ()
    refused: Sequence[Row] = ()
    if limits.max_attack_auc is not None and recorded.has_truth:
        report = recorded_report(recorded, progress)
        results, refused = report.results, report.refused
    ndcg = _ndcg(recorded, with_interval=limits.use == "interval") if limits.min_ndcg else CheckReading()
    subjects = [
        CheckSubject(
            name=printable(f"{_defense(recorded)}, {click_model} clicks"),
            attacks=[
                CheckedAttack(row["method"], row["auc"], row["lists"])
                for row in results
                if row["click_model"] == click_model and not row["baseline"]
            ],
            refused=refusals(
                {row["method"]: row["reason"] for row in refused if row["click_model"] == click_model}
            ),
            all_attacks=all_attacks,
            no_attack="no attack on clicks was run" if recorded.has_truth else _NO_TRUTH,
            ceilings=_ceilings(recorded) if limits.max_ceiling_auc is not None else (),
            no_ceiling=_NO_SPEC,
            no_audit=_NO_AUDIT,
            ndcg=ndcg,
            loss=CheckReading(missing=_NO_TWIN),
        )
        for click_model in recorded.traces
    ]
    config: dict[str, JsonValue] = {"trace": str(path), "methods": list(recorded.methods)}
    if recorded.spec is not None:
        config["spec"] = recorded.spec.public.table()
    return RunSubjects(subjects, config)


def _defense(recorded: TraceAttack) -> str:
    defense = recorded.header.knowledge.get("defense", [])
    text = "+".join(defense) if isinstance(defense, list) else str(defense)
    return text or "unknown defense"


def _ceilings(recorded: TraceAttack) -> list[ViewCeiling]:
    """The proven AUC of any attack for each view; none of a trace without its Spec or data."""
    if recorded.spec is None or recorded.collection is None:
        return []
    found = system_aucs(Setup(recorded.spec, recorded.collection).privacy)
    return [ViewCeiling(view=one.view, auc=one.auc, how=one.how) for one in found]


def _ndcg(recorded: TraceAttack, *, with_interval: bool) -> CheckReading:
    """The nDCG@10 after the last round, with its interval over queries if the Run has its model."""
    trace = _training(recorded)
    rounds = trace.metrics() if trace.has_truth else []
    if not rounds or OFFLINE_NDCG not in rounds[-1]:
        return CheckReading(missing="the trace holds no metrics of its training")
    if recorded.spec is not None and len(rounds) < recorded.spec.train.rounds:
        missing = (
            f"{len(rounds)} of {recorded.spec.train.rounds} rounds are recorded; finish the run with --resume"
        )
        return CheckReading(missing=missing)
    value = float(rounds[-1][OFFLINE_NDCG])
    if not with_interval:
        return CheckReading(Estimate(value))
    if recorded.spec is None or not (recorded.path / MODEL).is_file():
        return CheckReading(Estimate(value), "only a finished Run has the model that it is computed with")
    return CheckReading(Estimate(value, _interval(recorded, recorded.path)))


def _training(recorded: TraceAttack) -> Trace:
    if recorded.spec is None:
        return next(iter(recorded.traces.values()))
    return Trace.open(RunFolder(recorded.path).training)


def _interval(recorded: TraceAttack, path: Path) -> Interval | None:
    """The 95 % interval of a finished Run's nDCG@10, by bootstrap over its evaluated queries."""
    spec, collection = recorded.spec, recorded.collection
    if spec is None or collection is None:
        raise UsageError(f"min_ndcg: {path}: no data to rank; give them with --data")
    federation = Federation(Setup(spec, collection))
    model = load_model(path, federation.setup.ranker.n_parameters)
    values = federation.evaluation.by_query(model, federation.weights_after(spec.train.rounds - 1))
    queries = np.array([f"{number:07d}" for number in range(values.size)], dtype=np.str_)
    return QueryBootstrap(queries, Streams(spec.seed)).share(values).ci95
