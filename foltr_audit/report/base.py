"""What every report holds: configuration, data, utility; and its forms as table, JSON and data frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from foltr_audit.records import Collection
from foltr_audit.report.plain import json_text
from foltr_audit.study import Cell

if TYPE_CHECKING:
    import polars as pl

Row = dict[str, Any]


@dataclass(frozen=True)
class Report:
    """A result as plain rows; a subclass adds its own rows as the last field.

    Attributes:
        config: the plan as a plain table.
        dataset: source, fingerprints and sizes of the data.
        utility: one row per trained-on click model, claimed epsilon and chain.
    """

    SCHEMA: ClassVar[str]

    config: Row
    dataset: Row
    utility: list[Row]

    def table(self) -> Row:
        """Everything as one plain table with its schema."""
        return {"schema": self.SCHEMA, **{field.name: getattr(self, field.name) for field in fields(self)}}

    def json(self) -> str:
        """Everything as one JSON object."""
        return json_text(self.table())

    def to_frame(self) -> pl.DataFrame:
        """The report's own rows as a polars data frame."""
        import polars as pl

        return pl.DataFrame(getattr(self, fields(self)[-1].name), infer_schema_length=None)


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


def grouped(cells: Sequence[Cell]) -> dict[tuple[str, float, str], list[Cell]]:
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
    for (trained_on, eps, chain), group in grouped(cells).items():
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
