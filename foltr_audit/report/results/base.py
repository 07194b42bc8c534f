"""What every report holds: configuration, data, utility; and its form as table, JSON or data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from foltr_audit.core.records.population import SEVERAL
from foltr_audit.core.spec.experiment import flat
from foltr_audit.experiments.runner import RunResult
from foltr_audit.privacy.observer_views import attacked_view, sees
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.rows import JsonValue, ResultRow, column

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Setting(ResultRow):
    """The columns that name what was run.

    Attributes:
        trained_on: how the users of the training clicked.
        eps_claimed: what the chain claims, infinite without a claim.
        defense: the chain.
        learner: the learner.
        pdgd: how it makes pairs and normalises.
        sees: what the observer of its attacks sees; None where nothing was attacked.
        fields: fields of the Spec in which rows differ, under their dotted names.
    """

    trained_on: str
    eps_claimed: float
    defense: str
    learner: str
    pdgd: str
    sees: str | None = column(optional=True)
    fields: Mapping[str, JsonValue] = column(embedded=True, default={})


@dataclass(frozen=True, kw_only=True)
class PlainReport(ResultRow):
    """A result as typed rows, the fields of a subclass, of which the last one holds its main rows.

    Attributes:
        SCHEMA: name and version of its JSON.
    """

    SCHEMA: ClassVar[str]

    def table(self) -> dict[str, JsonValue]:
        """Everything as one plain table with its schema."""
        return {"schema": self.SCHEMA, **self.plain()}

    def json(self, more: Mapping[str, object] | None = None) -> str:
        """Everything as one JSON object, with the fields of `more` after it."""
        return json_text({**self.table(), **(more or {})})

    def rows(self) -> list[dict[str, JsonValue]]:
        """The main rows with the columns that they have in JSON."""
        found = getattr(self, fields(self)[-1].name)
        return [row.plain() if isinstance(row, ResultRow) else row for row in found]

    def to_frame(self) -> pl.DataFrame:
        """The main rows as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def to_pandas(self) -> pd.DataFrame:
        """The main rows as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    @classmethod
    def schema(cls) -> dict[str, JsonValue]:
        """The whole document as a JSON Schema (draft 2020-12)."""
        found = super().schema()
        columns = cast("dict[str, JsonValue]", found["properties"])
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": cls.SCHEMA,
            **found,
            "properties": {"schema": {"const": cls.SCHEMA}, **columns},
            "required": ["schema", *cast(list[JsonValue], found["required"])],
        }


@dataclass(frozen=True, kw_only=True)
class Report(PlainReport):
    """The result of a command that runs a plan; a subclass adds its own rows as the last field.

    Attributes:
        config: the plan as a plain table.
        dataset: source, fingerprints and sizes of the data.
        utility: one row per trained-on click model, claimed epsilon and chain.
        utility_groups: one row per setting and group of clients, worst served first; left out where clients
            do not differ.
        warnings: incompatible defenses in the chains that were run, one row per chain and warning.
    """

    config: Row
    dataset: Row
    utility: list[Row]
    utility_groups: list[Row] = column(optional=True, default=())
    warnings: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class RunGroup:
    """Cells that differ in repetition and fold only: one row of a report pools them.

    Attributes:
        cells: the cells.
        setting: columns that name the group; Spec fields that differ between groups and have no column
            of their own stand under their dotted name, e.g. `population.clients`.
    """

    cells: list[RunResult]
    setting: Row


_OWN_COLUMN = ("defense", "train.click_model", "attack.click_models", "attack.methods")


def groups(cells: Sequence[RunResult]) -> list[RunGroup]:
    """The cells by everything but repetition and fold, in order."""
    found: dict[str, list[RunResult]] = {}
    fields: dict[str, Row] = {}
    for cell in cells:
        table = flat(cell.spec.table()) | {"train.learner": cell.system.learner}
        for name in ("repetition", "data.fold"):
            table.pop(name, None)
        key = json_text(table)
        found.setdefault(key, []).append(cell)
        fields[key] = table
    names = dict.fromkeys(name for table in fields.values() for name in table if name not in _OWN_COLUMN)
    differ = [name for name in names if len({json_text(table.get(name)) for table in fields.values()}) > 1]
    return [
        RunGroup(cells, setting(cells[0]) | {name: fields[key].get(name) for name in differ})
        for key, cells in found.items()
    ]


def setting(cell: RunResult) -> Row:
    """The columns that name what was run, and what the observer of its attacks sees."""
    attack = cell.spec.attack
    observer = {} if attack is None else {"sees": sees(attacked_view(attack.view, attack.hide))}
    return {
        "trained_on": cell.world.population.click_model(cell.spec.train.click_model) or SEVERAL,
        "eps_claimed": cell.system.eps_claimed,
        "defense": "+".join(cell.spec.defense),
        "learner": cell.system.learner,
        "pdgd": cell.system.pdgd,
        **observer,
    }


def dataset_table(facts: Sequence[Row]) -> Row:
    """What several folds have in common, and in `folds` the rest of each."""
    shared = ("source", "intents", "intents_from", "synthetic", "normalised", "features")
    folds = {fold["fingerprint"]: fold for fold in facts}
    return {
        **{name: facts[0][name] for name in shared if name in facts[0]},
        "folds": [
            {name: value for name, value in fold.items() if name not in shared} for fold in folds.values()
        ],
    }


def warning_rows(cells: Sequence[RunResult]) -> list[Row]:
    """Each warning about each chain, once."""
    found: dict[tuple[str, str], Row] = {}
    for cell in cells:
        chain = "+".join(cell.spec.defense)
        for warning in cell.system.warnings:
            found.setdefault((chain, warning), {"defense": chain, "warning": warning})
    return list(found.values())


def utility_rows(cells: Sequence[RunResult]) -> list[Row]:
    """One row per group: means over its runs."""
    rows = []
    for group in groups(cells):
        trained = [cell.trained for cell in group.cells]
        undefended = [cell.undefended for cell in group.cells if cell.undefended is not None]
        rows.append(
            {
                **group.setting,
                "runs": len(group.cells),
                "ndcg@10": float(np.mean([run.ndcg for run in trained])),
                "ndcg@10_undefended": float(np.mean(undefended)) if undefended else None,
                "ndcg@10_untrained": float(np.mean([run.untrained for run in trained])),
                "ndcg@10_ceiling": float(np.mean([run.ceiling for run in trained])),
                "evaluated_on": evaluated_on(trained[0].rounds),
                "online_sum": float(np.mean([run.online_sum for run in trained])),
                "online_mean": float(np.mean([run.online_mean for run in trained])),
                "clipped": float(np.mean([run.clipped for run in trained])),
            }
        )
    return rows
