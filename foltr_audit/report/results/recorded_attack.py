"""The report of attacks on recorded messages: those of a Run folder, or a trace of any system."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.pdgd import setting_text
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, mean_of_rounds
from foltr_audit.core.records.population import SEVERAL, Population
from foltr_audit.core.spec.attack import refuse_unknown_queries
from foltr_audit.core.spec.experiment import Spec
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.experiments.runner import DataFacts
from foltr_audit.privacy.observer_views import attacked_view, sees
from foltr_audit.report.results.attack import INQUIRIES, AttackReport, joined, rows_of
from foltr_audit.report.results.base import Row, dataset_table
from foltr_audit.report.results.doubts import doubt_rows
from foltr_audit.report.results.fact_warnings import fact_warnings
from foltr_audit.report.results.group_utility import TrainingHistory, rows_of_trainings
from foltr_audit.rng import Streams
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.progress import SILENT, Progress


def recorded_report(recorded: TraceAttack, progress: Progress = SILENT) -> AttackReport:
    """Check the facts against the messages, then judge the attacks; the utility is what a Run recorded.

    Raises:
        UsageError: a trace holds no truth, or a query was named that is not in its data.
    """
    refuse_unknown_queries(recorded.protocol.queries, recorded.collection)
    checked = [{"click_model": name, **check.table()} for name, check in recorded.facts.items()]
    protocol, pieces, streams = recorded.protocol, [], Streams(recorded.used_seed)
    for judged in recorded.judged(progress):
        facts = _facts(judged.header, recorded.spec, recorded.population)
        facts["sees"] = sees(attacked_view(protocol.view, protocol.hide))
        pieces.append(rows_of(judged.found, judged.click_model, facts, streams, protocol.queries))
    config: Row = {"trace": str(recorded.path), "seed": recorded.used_seed, "methods": list(recorded.methods)}
    if recorded.spec is not None:
        config["spec"] = recorded.spec.table()
    utility, utility_groups = _utility(recorded)
    rows = joined(pieces)
    return AttackReport(
        config=config,
        dataset=_dataset(recorded),
        utility=utility,
        utility_groups=utility_groups,
        facts=checked,
        warnings=fact_warnings(checked) + doubt_rows(rows["results"]),
        **rows,
        **joined(pieces, INQUIRIES),
    )


def _utility(recorded: TraceAttack) -> tuple[list[Row], list[Row]]:
    """What a Run's training rounds recorded of its utility, and by group; nothing for a bare trace."""
    training = recorded.training()
    if training is None:
        return [], []
    header, rounds = training
    facts = _facts(header, recorded.spec, recorded.population)
    utility = [
        {
            **facts,
            "runs": 1,
            "ndcg@10": rounds[-1][OFFLINE_NDCG],
            **dict.fromkeys(("ndcg@10_undefended", "ndcg@10_untrained", "ndcg@10_ceiling")),
            "evaluated_on": evaluated_on(rounds),
            "clipped": mean_of_rounds(np.array([row["clipped"] for row in rounds])),
        }
    ]
    return utility, rows_of_trainings([TrainingHistory(recorded.population, rounds)], facts)


def _dataset(recorded: TraceAttack) -> Row:
    if recorded.collection is not None:
        return dataset_table([DataFacts.of(recorded.collection).plain()])
    dataset = recorded.header.dataset
    return {
        "source": dataset.source,
        "synthetic": dataset.source.startswith("synthetic:"),
        "normalised": dataset.normalised,
        "features": recorded.header.parameters if recorded.header.ranker == "linear" else None,
        "parameters": recorded.header.parameters,
        "folds": [{"fold": dataset.fold, "fingerprint": dataset.fingerprint}],
    }


def _facts(header: TraceHeader, spec: Spec | None, population: Population) -> Row:
    known = header.knowledge
    defense, eps = known.get("defense", []), known.get("eps_claimed", float("inf"))
    pdgd = setting_text(str(known.get("pairs", "unknown")), str(known.get("normaliser", "unknown")))
    return {
        "trained_on": (population.click_model(spec.train.click_model) or SEVERAL) if spec else "unknown",
        "eps_claimed": float(eps) if isinstance(eps, int | float) else float("inf"),
        "defense": "+".join(defense) if isinstance(defense, list) else str(defense),
        "learner": str(known.get("learner", "unknown")),
        "pdgd": pdgd if header.holds_models or "pairs" in known else "none",
    }
