"""Runs plans, those of the cells of presets too, and prints their reports beside published figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from foltr_audit.cli.common import CommonOptions, check_pictures, field_flags, use_threads
from foltr_audit.cli.options import Table, words
from foltr_audit.cli.output import save_config, stdout_console
from foltr_audit.errors import UsageError
from foltr_audit.utils.progress import on_terminal

if TYPE_CHECKING:
    from rich.console import Console

    from foltr_audit.core.settings.experiment import Spec
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.experiments.presets import Preset
    from foltr_audit.experiments.published import ParameterOverride
    from foltr_audit.experiments.run import Run
    from foltr_audit.report.documents import Document
    from foltr_audit.report.presets import PresetComparison

R = TypeVar("R", bound="Document")
S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class PresetSelection:
    """A preset with the options that override it, and its scale.

    Attributes:
        plans: the plan of each cell by its name, for each reading that is played.
    """

    preset: Preset
    plans: dict[str, dict[str, Plan]]
    scale: float = 1.0
    runs: int | None = None

    @classmethod
    def of(
        cls,
        preset: Preset,
        common: CommonOptions,
        *,
        same: bool = False,
        scale: float = 1.0,
        reading: str | None = None,
    ) -> PresetSelection:
        """Select a preset; without --fold it runs on every fold of data with folds."""
        if common.config is not None:
            raise UsageError("--config and --preset: give one or the other; each is a starting point")
        check_scale(scale)
        spread = _spread(preset, common, scale)
        protocol = "attack" if preset.kind == "attack" else None
        plans = {
            name: {
                cell: spread.plan(protocol=protocol, same=same, tables=tables)
                for cell, tables in preset.tables(scale, name).items()
            }
            for name in _readings(preset, reading)
        }
        return cls(preset=preset, plans=plans, scale=scale, runs=common.runs)

    @property
    def plan(self) -> Plan:
        """The Specs of all cells, each once."""
        return _joined([plan for cells in self.plans.values() for plan in cells.values()])

    def reports(
        self, report_of: Callable[[Plan, list[Run]], R], cells: Sequence[Run]
    ) -> Iterator[tuple[str, R]]:
        """A report on each reading, with its heading; nothing where there is one reading alone."""
        from foltr_audit.experiments.periods import runs_by_spec
        from foltr_audit.experiments.presets import READINGS

        run = runs_by_spec(cells)
        for name, plans in self.plans.items() if len(self.plans) > 1 else ():
            plan = _joined(plans.values())
            yield READINGS[name], report_of(plan, [run[spec] for spec in plan.specs])

    def comparison(self, cells: Sequence[Run]) -> PresetComparison:
        """The published figures with those of the cells that were run."""
        from foltr_audit.experiments.periods import runs_by_spec
        from foltr_audit.experiments.published import StudyExtent
        from foltr_audit.report.presets import PresetComparison

        run = runs_by_spec(cells)
        mine = {
            reading: {name: [run[spec] for spec in plan.specs] for name, plan in plans.items()}
            for reading, plans in self.plans.items()
        }
        data = cells[0].data
        extent = StudyExtent(
            data=data.source, synthetic=data.synthetic, scale=self.scale, overridden=tuple(self._overridden())
        )
        return PresetComparison.of(self.preset, mine, extent)

    def _overridden(self) -> Iterator[ParameterOverride]:
        """The parameters of the study that were overridden, except data, seed and --scale."""
        from foltr_audit.experiments.plan import Plan
        from foltr_audit.experiments.published import ParameterOverride

        original = _values(Plan.of(self.preset.tables_in(self.plans, self.scale), "").specs)
        now = _values(self.plan.specs)
        for name in dict.fromkeys((*original, *now)):
            values, published = now.get(name, ()), original.get(name, ())
            if name not in _NO_PARAMETERS and set(values) != set(published):
                option = _OPTIONS.get(name) or field_flags().get(name, name)
                said = (" or ".join(each) or "none" for each in (values, published))
                yield ParameterOverride(option, *said)
        repetitions = self.preset.repetitions
        if self.runs is not None and repetitions is not None and self.runs != repetitions:
            yield ParameterOverride("--runs", str(self.runs), str(repetitions))


def _joined(plans: Iterable[Plan]) -> Plan:
    """The Specs of some plans, each once."""
    from foltr_audit.experiments.plan import Plan

    return Plan(tuple(dict.fromkeys(spec for plan in plans for spec in plan.specs)))


_OPTIONS = {"defense": "--defense", "train.click_model": "--train-click-model"}
_NO_PARAMETERS = words("data.source data.fold data.intents repetition seed")


def _values(specs: Sequence[Spec]) -> dict[str, tuple[str, ...]]:
    """The distinct values of each field of some Specs, as texts."""
    from foltr_audit.core.settings.experiment import flat

    texts: dict[str, dict[str, None]] = {}
    for spec in specs:
        for name, value in flat(spec.table()).items():
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            texts.setdefault(name, {})[text] = None
    return {name: tuple(values) for name, values in texts.items()}


def check_scale(scale: float) -> None:
    if not 0 < scale <= 1:
        raise UsageError(f"--scale: {scale:g}; expected a number above 0 and at most 1")


def _readings(preset: Preset, wanted: str | None) -> tuple[str, ...]:
    known = preset.reading_names
    if wanted is None:
        return known
    if wanted not in known:
        names = f"expected {' or '.join(known)}" if any(known) else "it has one reading; leave the option out"
        raise UsageError(f"--reading: {wanted!r} of {preset.name}; {names}")
    return (wanted,)


def attack_preset(name: str) -> Preset:
    from foltr_audit.experiments.presets import load_preset

    preset = load_preset(name)
    if preset.kind != "attack":
        raise UsageError(f"--preset: {name} is of kind {preset.kind}; see foltr-audit study run {name}")
    return preset


def published_table(published: PresetComparison | None) -> Table:
    """The published figures as a field of the report's JSON."""
    return {} if published is None else {"published": published.table()}


def store(
    plan: Plan,
    common: CommonOptions,
    report_of: Callable[[Plan, list[Run]], R],
    *,
    pictures: Sequence[Path] = (),
    chosen: PresetSelection | None = None,
    twins: bool = False,
) -> tuple[R, list[Run], PresetComparison | None]:
    """Run a plan, with `twins` too if asked, and store its report in --out.

    Returns:
        The report, what was run, and the published figures beside those found where a preset was chosen.
    """
    from foltr_audit.experiments.runner import Runner, run_plan

    output = common.output()
    check_pictures(pictures, common.out)
    save_config(common.save_config, plan)
    use_threads(common.threads)
    runner = Runner(on_terminal())
    plan = runner.with_twins(plan) if twins else plan
    runs = run_plan(plan, output, runner)
    report = report_of(plan, runs)
    published = None if chosen is None else chosen.comparison(runs)
    if output is not None:
        output.save_results(report.json(published_table(published)))
    return report, runs, published


def print_beside(
    published: PresetComparison | None, reports: Iterable[tuple[str, S]], draw: Callable[[S, Console], object]
) -> None:
    """Print reports on stdout below their headings, and the figures of a published study if there is one."""
    console = stdout_console("" if published is None else published.extent.label)
    if published is not None:
        console.print(published.heading, style="bold", highlight=False, markup=False)
    for heading, report in reports:
        if heading:
            console.print(f"\n{heading}", style="bold", highlight=False)
        draw(report, console)
    if published is not None:
        console.print()
        published.print(console)


def _spread(preset: Preset, common: CommonOptions, scale: float) -> CommonOptions:
    """The options with the repetitions of a preset, on all folds of the data unless --fold names one."""
    from foltr_audit.core.settings.experiment import Spec
    from foltr_audit.data.load import folds
    from foltr_audit.experiments.presets import shorten

    source = common.fields.get("data.source", preset.data.twin)
    numbers = folds(Spec.parse({"data": {"source": source}}, "", field_flags()).data)
    runs = common.runs
    if runs is None and (preset.repetitions or numbers):
        runs = shorten(preset.repetitions or len(numbers), scale)
    return replace(common, runs=runs, fold="all" if common.fold is None and numbers else common.fold)
