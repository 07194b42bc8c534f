"""What `--preset` means: the plan of each cell of a published study, and its figures beside the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from foltr_audit.cli.common import FIELD_OPTIONS, Common
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.plan import Plan
    from foltr_audit.presets import Preset
    from foltr_audit.report.published import PublishedComparison
    from foltr_audit.study import Cell

Table = dict[str, Any]


@dataclass(frozen=True)
class Chosen:
    """A preset with the options that override it.

    Attributes:
        preset: the study.
        plans: the plan of each of its cells, by name; two of them may hold the same Spec.
    """

    preset: Preset
    plans: dict[str, Plan]

    @classmethod
    def of(cls, name: str, common: Common, point: Table, *, same: bool) -> Chosen:
        """The preset of a name; without --fold, over every fold of data that have some.

        Args:
            name: as given.
            common: the shared options.
            point: changes that the command's own options mean, by dotted name.
            same: train under each attacked click model.

        Raises:
            UsageError: an unknown preset, --config beside it, or a value that cannot be meant.
        """
        from foltr_audit.presets import load_preset

        if common.config is not None:
            raise UsageError("--config and --preset: give one or the other; both say what to start from")
        preset = load_preset(name)
        plans = {
            cell: _every_fold(common, table).plan(point, protocol="attack", same=same, tables=[table])
            for cell, table in preset.tables().items()
        }
        return cls(preset, plans)

    @property
    def plan(self) -> Plan:
        """All Specs of all cells, each once."""
        from foltr_audit.plan import Plan

        return Plan(tuple(dict.fromkeys(spec for plan in self.plans.values() for spec in plan.specs)))

    def comparison(self, cells: Sequence[Cell]) -> PublishedComparison:
        """The published figures beside the cells that were run."""
        from foltr_audit.report.published import PublishedComparison

        run = {cell.spec: cell for cell in cells}
        mine = {name: [run[spec] for spec in plan.specs] for name, plan in self.plans.items()}
        return PublishedComparison.of(self.preset, mine)


def _every_fold(common: Common, table: Table) -> Common:
    """The options with `--fold all` where data have folds and none was named."""
    from foltr_audit.load import folds
    from foltr_audit.spec import Spec

    source = table["data"]["source"] if common.data is None else common.data
    data = Spec.parse({"data": {"source": source}}, "", FIELD_OPTIONS).data
    return replace(common, fold="all") if common.fold is None and folds(data) else common
