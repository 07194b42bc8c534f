"""What a preset means: the plan of each cell of a published study, and its figures beside the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from foltr_audit.cli.common import FIELD_OPTIONS, CommonOptions
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.core.spec.experiment import Spec
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.experiments.presets import Preset
    from foltr_audit.experiments.runner import RunResult
    from foltr_audit.report.results.published_extent import ParameterOverride, PresetComparison

Table = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PresetSelection:
    """A preset with the options that override it.

    Attributes:
        preset: the study.
        plans: the plan of each of its cells, by name; two of them may hold the same Spec.
        scale: what rounds, repeats and repetitions were multiplied by.
        runs: repetitions that --runs asks for; None where it is not given.
    """

    preset: Preset
    plans: dict[str, Plan]
    scale: float = 1.0
    runs: int | None = None

    @classmethod
    def of(
        cls,
        preset: Preset,
        common: CommonOptions,
        point: Table | None = None,
        *,
        same: bool = False,
        scale: float = 1.0,
    ) -> PresetSelection:
        """A preset; without --fold, spread over every fold of data that have some.

        Args:
            preset: the study.
            common: the shared options.
            point: changes that the command's own options mean, by dotted name.
            same: train under each attacked click model.
            scale: what rounds, repeats and repetitions are multiplied by, above 0 and at most 1.

        Raises:
            UsageError: --config beside it, a scale out of range, or a value that cannot be meant.
        """
        if common.config is not None:
            raise UsageError("--config and --preset: give one or the other; both say what to start from")
        check_scale(scale)
        spread = _spread(preset, common, scale)
        protocol = "attack" if preset.kind == "attack" else None
        plans = {
            cell: spread.plan(point or {}, protocol=protocol, same=same, tables=tables)
            for cell, tables in preset.tables(scale).items()
        }
        return cls(preset=preset, plans=plans, scale=scale, runs=common.runs)

    @property
    def plan(self) -> Plan:
        """All Specs of all cells, each once."""
        from foltr_audit.experiments.plan import Plan

        return Plan(tuple(dict.fromkeys(spec for plan in self.plans.values() for spec in plan.specs)))

    def comparison(self, cells: Sequence[RunResult]) -> PresetComparison:
        """The published figures beside the cells that were run."""
        from foltr_audit.report.results.published_extent import StudyExtent
        from foltr_audit.report.tables.published_attacks import AttackComparison
        from foltr_audit.report.tables.published_figures import FigureComparison

        run = {cell.spec: cell for cell in cells}
        mine = {name: [run[spec] for spec in plan.specs] for name, plan in self.plans.items()}
        data = cells[0].data
        extent = StudyExtent(
            data=data["source"],
            synthetic=data["synthetic"],
            scale=self.scale,
            overridden=tuple(self._overridden()),
        )
        kind = AttackComparison if self.preset.published.attacks else FigureComparison
        return kind.of(self.preset, mine, extent)

    def _overridden(self) -> Iterator[ParameterOverride]:
        """What of the study was given another value, but for its data, seed and --scale."""
        from foltr_audit.experiments.plan import Plan
        from foltr_audit.report.results.published_extent import ParameterOverride

        tables = self.preset.tables(self.scale)
        as_it_is = _values([spec for mine in tables.values() for spec in Plan.of(mine, "").specs])
        now = _values(self.plan.specs)
        for name in dict.fromkeys((*as_it_is, *now)):
            values, published = now.get(name, ()), as_it_is.get(name, ())
            if name not in _NO_PARAMETERS and set(values) != set(published):
                option = _OPTIONS.get(name) or FIELD_OPTIONS.get(name, name)
                yield ParameterOverride(option, _text(values), _text(published))
        repetitions = self.preset.repetitions
        if self.runs is not None and repetitions is not None and self.runs != repetitions:
            yield ParameterOverride("--runs", str(self.runs), str(repetitions))


_OPTIONS = {
    "attack.click_models": "--click-model",
    "attack.methods": "--method",
    "defense": "--defense",
    "train.click_model": "--train-click-model",
}

_NO_PARAMETERS = ("data.source", "data.fold", "data.intents", "repetition", "seed")


def _values(specs: Sequence[Spec]) -> dict[str, tuple[str, ...]]:
    """The different values of each field of some Specs, as texts."""
    from foltr_audit.core.spec.experiment import flat

    found: dict[str, dict[str, None]] = {}
    for spec in specs:
        for name, value in flat(spec.table()).items():
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            found.setdefault(name, {})[text] = None
    return {name: tuple(values) for name, values in found.items()}


def _text(values: Sequence[str]) -> str:
    return " or ".join(values) or "none"


def check_scale(scale: float) -> None:
    """Refuse a scale that is no share.

    Raises:
        UsageError: it is not above 0 and at most 1.
    """
    if not 0 < scale <= 1:
        raise UsageError(f"--scale: {scale:g}; expected a number above 0 and at most 1")


def attack_preset(name: str) -> Preset:
    """The preset of a name that `attack --preset` gives.

    Raises:
        UsageError: an unknown preset, or one that attacks nothing.
    """
    from foltr_audit.experiments.presets import load_preset

    preset = load_preset(name)
    if preset.kind != "attack":
        raise UsageError(f"--preset: {name} is of kind {preset.kind}; see foltr-audit scenario run {name}")
    return preset


def beside(published: PresetComparison | None) -> Table:
    """What stands beside a report in JSON."""
    return {} if published is None else {"published": published.table()}


def _spread(preset: Preset, common: CommonOptions, scale: float) -> CommonOptions:
    """The options with the repetitions of a preset, over all folds where there are some and none is named."""
    from foltr_audit.core.spec.experiment import Spec
    from foltr_audit.data.load import folds
    from foltr_audit.experiments.presets import shortened

    source = preset.data.twin if common.data is None else common.data
    found = folds(Spec.parse({"data": {"source": source}}, "", FIELD_OPTIONS).data)
    runs = common.runs
    if runs is None and (preset.repetitions or found):
        runs = shortened(preset.repetitions or len(found), scale)
    return replace(common, runs=runs, fold="all" if common.fold is None and found else common.fold)
