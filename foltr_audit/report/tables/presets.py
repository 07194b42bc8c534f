"""Presets as rows, as tables, and as the TOML that `--config` accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import ClassVar

from foltr_audit.core.plugins import Learner
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.presets import Preset
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class PresetSize(ResultRow):
    """How large a preset is: a plan, or a study of merged models.

    Attributes:
        specs: number of Specs.
        repetitions: of each; data with folds that are run once each count as five, as those of the papers.
        interactions: training interactions of all at scale 1.
        trials: of each model of a study of merged models; `trees` are its most trees.
    """

    specs: int | None = column(optional=True)
    repetitions: int | None = column(optional=True)
    interactions: int | None = column(optional=True)
    trials: JsonValue = column(optional=True)
    trees: JsonValue = column(optional=True)

    @classmethod
    def of(cls, preset: Preset) -> PresetSize:
        if not preset.cells:
            merge = flat(preset.merge)
            return cls(trials=merge.get("trials"), trees=merge.get("trees"))
        specs = preset_plan(preset).specs
        repetitions = preset.repetitions or FOLDS
        interactions = repetitions * sum(_interactions(spec) for spec in specs)
        return cls(specs=len(specs), repetitions=repetitions, interactions=interactions)


@dataclass(frozen=True, kw_only=True)
class PresetRow(ResultRow):
    """What a preset repeats, which data it needs, and its size."""

    name: str
    kind: str
    about: str
    source: str
    needs: str
    get: str
    twin: str
    systems: tuple[str, ...]
    size: PresetSize = column(embedded=True)

    @classmethod
    def of(cls, preset: Preset) -> PresetRow:
        return cls(
            name=preset.name,
            kind=preset.kind,
            about=preset.about,
            source=preset.source,
            needs=preset.data.needs,
            get=preset.data.get,
            twin=preset.data.twin,
            systems=tuple(cell.name for cell in preset.cells),
            size=PresetSize.of(preset),
        )


@dataclass(frozen=True, kw_only=True)
class PresetReport(PlainReport):
    """Everything known of a preset.

    Attributes:
        preset: its row.
        plan: one repetition of every Spec as a plain table, `toml` as TOML.
        published: what the study found.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/study/1"

    preset: PresetRow = column(embedded=True)
    plan: Mapping[str, JsonValue]
    toml: str
    published: Mapping[str, JsonValue]

    @classmethod
    def of(cls, preset: Preset) -> PresetReport:
        return cls(
            preset=PresetRow.of(preset),
            plan=_plan_table(preset),
            toml=_toml(preset),
            published=preset.published.model_dump(mode="json"),
        )


FOLDS = 5
"""Folds of the data sets that the papers use."""


def preset_plan(preset: Preset) -> Plan:
    """One repetition of every Spec, on the synthetic twin."""
    return Plan.of([table for mine in preset.tables().values() for table in mine], f"preset {preset.name}")


def _plan_table(preset: Preset) -> dict[str, JsonValue]:
    """The plan, or what the study of merged models is."""
    return preset_plan(preset).table() if preset.cells else {"merge": preset.merging()}


def _toml(preset: Preset) -> str:
    import tomli_w

    return tomli_w.dumps(_plan_table(preset))


def preset_text(preset: Preset) -> str:
    """The plan as TOML, with all else as comments."""
    comments = [line for text in _comments(preset) for line in wrap(text, 100) or [""]]
    return "\n".join([*(f"# {line}".rstrip() for line in comments), "", _toml(preset).rstrip()])


def preset_rows(presets: Iterable[Preset]) -> list[PresetRow]:
    return [PresetRow.of(preset) for preset in presets]


def preset_table(rows: Sequence[PresetRow]) -> Table:
    """One line per preset."""
    columns: list[Column[PresetRow]] = [
        Column("name", lambda row: row.name, "name"),
        Column("what it repeats", lambda row: row.about, "words"),
        Column("data", lambda row: row.needs, "words"),
        Column("size", lambda row: _size(row.size), "words"),
    ]
    return make_table(
        "presets: foltr-audit study show NAME, study run NAME",
        columns,
        rows,
        caption="size: Specs x repetitions, and interactions of all of them, at scale 1",
        section=lambda row: row.name,
    )


def _size(size: PresetSize) -> str:
    if size.interactions is None:
        return f"{size.trials} trials a model, up to {size.trees:,} trees"
    return f"{size.specs} x {size.repetitions}, {count(size.interactions)}"


def count(number: int) -> str:
    """A large number in short, e.g. `2.41 M`.

    >>> count(950), count(12_000), count(2_412_345), count(3_000_000_000)
    ('950', '12 k', '2.41 M', '3 G')
    """
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return str(number)


def _interactions(spec: Spec) -> int:
    each = make(Learner, spec.train.learner).interactions
    return spec.population.cohort_size * each * spec.train.rounds


def _comments(preset: Preset) -> Iterator[str]:
    yield f"{preset.name}: {preset.about}"
    yield f"Source: {preset.source}."
    yield f"Data: {preset.data.needs}: {preset.data.get}. Its synthetic twin is {preset.data.twin}."
    if preset.cells:
        size = PresetSize.of(preset)
        yield (
            f"Size: {size.specs} Specs x {size.repetitions} repetitions (--runs, --fold all), "
            f"{count(size.interactions or 0)} interactions. Below is one repetition of each on the twin."
        )
    yield from _published(preset)


def _published(preset: Preset) -> Iterator[str]:
    published = preset.published
    yield f"Published: {published.title}, of {published.data}."
    if published.shows:
        yield published.shows
    for figure in published.figures:
        where = "".join(f", {name}={value}" for name, value in flat(figure.where).items())
        about = "about " if figure.approximate else ""
        yield f"  {figure.cell}{where}: {figure.metric} {about}{figure.value:g}"
    for attack in published.attacks:
        yield (
            f"  {attack.method}, {attack.click_model} clicks: accuracy {attack.accuracy:g}, "
            f"precision {attack.precision:g}, recall {attack.recall:g}"
        )
