"""What an attack run found, as plain rows: the one record behind the table, the JSON and the data frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foltr_audit.judge import Evidence, combined
from foltr_audit.plan import Plan
from foltr_audit.records import Collection
from foltr_audit.report.plain import json_text
from foltr_audit.rng import Streams
from foltr_audit.scoring import METRICS, Scored, Scorer
from foltr_audit.study import Cell

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "foltr-audit/attack/1"

Row = dict[str, Any]


@dataclass(frozen=True)
class AttackReport:
    """The result of `attack`.

    Attributes:
        config: the plan as a plain table.
        dataset: source, fingerprints and sizes of the data.
        utility: one row per trained-on click model and claimed epsilon.
        results: one row per method, click model, claimed epsilon and view.
    """

    config: Row
    dataset: Row
    utility: list[Row]
    results: list[Row]

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[Cell]) -> AttackReport:
        """The report on the cells of a plan. Repetitions of one setting are pooled."""
        return cls(
            config=plan.table(),
            dataset=dataset_facts([cell.setup.collection for cell in cells])
            | {"queries_too_short": max(cell.too_short for cell in cells)},
            utility=utility_rows(cells),
            results=_results(cells),
        )

    def table(self) -> Row:
        """Everything as one plain table with its schema."""
        return {
            "schema": SCHEMA,
            "config": self.config,
            "dataset": self.dataset,
            "utility": self.utility,
            "results": self.results,
        }

    def json(self) -> str:
        """Everything as one JSON object."""
        return json_text(self.table())

    def to_frame(self) -> pl.DataFrame:
        """The result rows as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.results, infer_schema_length=None)


def dataset_facts(collections: Sequence[Collection]) -> Row:
    """Source, preparation, and per fold the fingerprint and the sizes of the parts."""
    folds = {collection.fingerprint: collection for collection in collections}
    first = collections[0]
    return {
        "source": first.source,
        "synthetic": first.synthetic,
        "normalised": first.normalised,
        "features": first.n_features,
        "folds": [
            {
                "fold": fold.fold,
                "fingerprint": fold.fingerprint,
                **{name: fold.part(name).n_queries for name in fold.PARTS},
                "test_without_relevant": int((~fold.test.has_relevant).sum()),
            }
            for fold in folds.values()
        ],
    }


def _grouped(cells: Sequence[Cell]) -> dict[tuple[str, float, str], list[Cell]]:
    """Cells that differ in repetition and fold only, by trained-on click model, epsilon and chain."""
    groups: dict[tuple[str, float, str], list[Cell]] = {}
    for cell in cells:
        spec = cell.setup.spec
        key = (spec.train.click_model, cell.setup.claim(), "+".join(spec.defense))
        groups.setdefault(key, []).append(cell)
    return groups


def utility_rows(cells: Sequence[Cell]) -> list[Row]:
    """One row per trained-on click model, claimed epsilon and chain: means over its runs."""
    rows = []
    for (trained_on, eps, chain), group in _grouped(cells).items():
        undefended = [cell.undefended for cell in group if cell.undefended is not None]
        rows.append(
            {
                "trained_on": trained_on,
                "eps_claimed": eps,
                "defense": chain,
                "pdgd": group[0].setup.learner.setting.text,
                "runs": len(group),
                "ndcg@10": float(np.mean([cell.trained.ndcg for cell in group])),
                "ndcg@10_undefended": float(np.mean(undefended)) if undefended else None,
                "ndcg@10_untrained": float(np.mean([cell.trained.untrained for cell in group])),
                "ndcg@10_ceiling": float(np.mean([cell.trained.ceiling for cell in group])),
                "online_sum": float(np.mean([cell.trained.online_sum for cell in group])),
                "clipped": float(np.mean([cell.trained.clipped for cell in group])),
            }
        )
    return rows


def _results(cells: Sequence[Cell]) -> list[Row]:
    rows: list[Row] = []
    for (trained_on, eps, chain), group in _grouped(cells).items():
        facts = {
            "trained_on": trained_on,
            "eps_claimed": eps,
            "defense": chain,
            "pdgd": group[0].setup.learner.setting.text,
        }
        for click_model in group[0].evidence or {}:
            pooled = combined([cell.evidence[click_model] for cell in group if cell.evidence])
            rows += result_rows(pooled, click_model, facts, Streams(group[0].setup.spec.seed))
    return rows


def result_rows(evidence: Evidence, click_model: str, facts: Row, streams: Streams) -> Iterator[Row]:
    """One row per guesser for the individual view of judged lists, baselines first."""
    lists = {
        "lists": int(evidence.query.size),
        "skipped": evidence.skipped,
        "queries": int(np.unique(evidence.query).size),
        "clipped": evidence.clipped / evidence.steps if evidence.steps else float("nan"),
    }
    for scored in Scorer(evidence, streams).scores():
        yield {
            "method": scored.method,
            "click_model": click_model,
            **facts,
            "view": "individual",
            **lists,
            **_metric_columns(scored),
        }


def _metric_columns(scored: Scored) -> Row:
    row: Row = {name: scored.metrics[name].value for name in METRICS}
    row["precision_undefined"] = scored.precision_undefined
    for name in METRICS:
        interval = scored.metrics[name].ci95
        row[f"{name}_ci95"] = None if interval is None else list(interval)
    return row
