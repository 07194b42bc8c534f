"""The report of attacks on recorded messages: those of a Run folder, or a trace of any system."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foltr_audit.core.pdgd import setting_text
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, mean_of_rounds
from foltr_audit.core.records.population import SEVERAL, Population
from foltr_audit.core.settings.attack import refuse_unknown_queries
from foltr_audit.core.settings.data import path_name
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.data_facts import DataFacts
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.experiments.runner import proven_of
from foltr_audit.privacy.observer_views import attacker_sees
from foltr_audit.report.results.attack import AttackReport, AttackRows, joined, rows_of
from foltr_audit.report.results.base import (
    DatasetFacts,
    FoldFacts,
    Setting,
    UtilityGroupRow,
    UtilityRow,
    WarningRow,
)
from foltr_audit.report.results.fact_warnings import CheckedFacts, FactRow, fact_warnings
from foltr_audit.report.results.groups import TrainingHistory, rows_of_trainings
from foltr_audit.report.results.meaning import doubt_rows
from foltr_audit.report.results.whole_run import proven_rows
from foltr_audit.rng import Streams
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import TraceHeader
from foltr_audit.trace.known_facts import plain_facts
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.rows import JsonValue


def recorded_report(recorded: TraceAttack, progress: Progress = SILENT) -> AttackReport:
    """Check the facts against the messages, then judge the attacks; the utility is what a Run recorded.

    Raises:
        UsageError: a trace holds no truth, or a query was named that is not in its data.
    """
    refuse_unknown_queries(recorded.protocol.queries, recorded.collection)
    checked = tuple(
        FactRow(click_model=name, found=CheckedFacts.of_plain(check.table()))
        for name, check in recorded.facts.items()
    )
    protocol, pieces, streams = recorded.protocol, [], Streams(recorded.used_seed)
    for judged in recorded.judged(progress):
        setting = _setting(judged.header, recorded.spec, recorded.population)
        setting = replace(setting, sees=attacker_sees(protocol.view, protocol.hide))
        pieces.append(rows_of(judged.found, judged.click_model, setting, streams, protocol.queries))
    config: dict[str, JsonValue] = {
        "trace": str(recorded.path),
        "seed": recorded.used_seed,
        "methods": list(recorded.methods),
    }
    if recorded.client_step is not None:
        config["client_step"] = recorded.client_step.text
    if recorded.known:
        config["known"] = plain_facts(recorded.known)
    if recorded.spec is not None:
        config["spec"] = recorded.spec.public.table()
    if recorded.spec is not None and recorded.collection is not None:
        proven = proven_of(Setup(recorded.spec, recorded.collection), protocol)
        setting = _setting(recorded.header, recorded.spec, recorded.population)
        pieces.append(AttackRows(proven=tuple(proven_rows(proven, setting))))
    utility, utility_groups = _utility(recorded)
    rows = joined(pieces)
    refused = tuple(replace(row, reason=recorded.advised(row.reason)) for row in rows.refused)
    return AttackReport(
        config=config,
        dataset=_dataset(recorded),
        utility=utility,
        utility_groups=utility_groups,
        warnings=(
            *map(WarningRow.of, dict.fromkeys(recorded.notes())),
            *fact_warnings(checked),
            *doubt_rows(rows.results),
        ),
        **{**vars(rows), "facts": checked, "refused": refused},
    )


def _utility(recorded: TraceAttack) -> tuple[tuple[UtilityRow, ...], tuple[UtilityGroupRow, ...]]:
    """What a Run's training rounds recorded of its utility, and by group; nothing for a bare trace."""
    training = recorded.training()
    if training is None:
        return (), ()
    header, rounds = training
    setting = _setting(header, recorded.spec, recorded.population)
    utility = UtilityRow(
        setting=setting,
        runs=1,
        ndcg=rounds[-1][OFFLINE_NDCG],
        undefended=None,
        untrained=None,
        ceiling=None,
        evaluated_on=evaluated_on(rounds),
        clipped=mean_of_rounds(np.array([row["clipped"] for row in rounds])),
    )
    return (utility,), tuple(rows_of_trainings([TrainingHistory(recorded.population, rounds)], setting))


def _dataset(recorded: TraceAttack) -> DatasetFacts:
    if recorded.collection is not None:
        return DatasetFacts.of([DataFacts.of(recorded.collection)])
    dataset = recorded.header.dataset
    return DatasetFacts(
        source=path_name(dataset.source),
        synthetic=dataset.source.startswith("synthetic:"),
        normalised=dataset.normalised,
        features=recorded.header.parameters if recorded.header.ranker == "linear" else None,
        parameters=recorded.header.parameters,
        folds=(FoldFacts(fold=dataset.fold, fingerprint=dataset.fingerprint),),
    )


def _setting(header: TraceHeader, spec: Spec | None, population: Population) -> Setting:
    known = header.knowledge
    defense, eps = known.get("defense", []), known.get("eps_claimed", float("inf"))
    pdgd = setting_text(str(known.get("pairs", "unknown")), str(known.get("normaliser", "unknown")))
    return Setting(
        trained_on=(population.click_model(spec.train.click_model) or SEVERAL) if spec else "unknown",
        eps_claimed=float(eps) if isinstance(eps, int | float) else float("inf"),
        defense="+".join(defense) if isinstance(defense, list) else str(defense),
        learner=str(known.get("learner", "unknown")),
        pdgd=pdgd if header.holds_models or "pairs" in known else "none",
    )
