"""Presets as rows, as tables, and as the TOML that `--config` accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.core.plugins import Learner
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.spec.experiment import Spec, flat
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.presets import Preset
from foltr_audit.report.results.base import Row
from foltr_audit.report.tables.layout import Column, rows_table, text_column

if TYPE_CHECKING:
    from rich.table import Table


def preset_rows(presets: Iterable[Preset]) -> list[Row]:
    """What presets repeat, which data they need, and their size."""
    return [
        {
            "name": preset.name,
            "kind": preset.kind,
            "about": preset.about,
            "source": preset.source,
            "needs": preset.data.needs,
            "get": preset.data.get,
            "twin": preset.data.twin,
            "systems": [cell.name for cell in preset.cells],
            **preset_size(preset),
        }
        for preset in presets
    ]


def preset_size(preset: Preset) -> Row:
    """Number of Specs, repetitions of each, and training interactions of all at scale 1.

    Data with folds that are run once each count as five, as those of the papers. Of a study of merged models
    the trials of each model and its most trees.
    """
    if not preset.cells:
        return {name: value for name, value in preset.merge.items() if name in ("trials", "trees")}
    specs = preset_plan(preset).specs
    repetitions = preset.repetitions or FOLDS
    return {
        "specs": len(specs),
        "repetitions": repetitions,
        "interactions": repetitions * sum(_interactions(spec) for spec in specs),
    }


FOLDS = 5
"""Folds of the data sets that the papers use."""


def preset_plan(preset: Preset) -> Plan:
    """One repetition of every Spec, on the synthetic twin."""
    return Plan.of([table for mine in preset.tables().values() for table in mine], f"preset {preset.name}")


def preset_details(preset: Preset) -> Row:
    """Everything known of a preset, with its plan as a plain table."""
    (row,) = preset_rows([preset])
    published = preset.published.model_dump(mode="json")
    return {**row, "plan": _plan_table(preset), "toml": _toml(preset), "published": published}


def _plan_table(preset: Preset) -> Row:
    """The plan, or what the study of merged models is."""
    return preset_plan(preset).table() if preset.cells else {"merge": preset.merging()}


def _toml(preset: Preset) -> str:
    import tomli_w

    return tomli_w.dumps(_plan_table(preset))


def preset_text(preset: Preset) -> str:
    """The plan as TOML, with all else as comments."""
    comments = [line for text in _comments(preset) for line in wrap(text, 100) or [""]]
    return "\n".join([*(f"# {line}".rstrip() for line in comments), "", _toml(preset).rstrip()])


def preset_table(rows: Sequence[Row]) -> Table:
    """One line per preset."""
    found = rows_table(
        "presets: foltr-audit scenario show NAME, scenario run NAME",
        "size: Specs x repetitions, and interactions of all of them, at scale 1",
        [
            text_column("name", "name", "name"),
            text_column("what it repeats", "about", "words"),
            text_column("data", "needs", "words"),
            Column("size", lambda row: escape(_size(row)), "words"),
        ],
        rows,
    )
    found.show_lines = True
    found.columns[-1].justify = "right"
    return found


def _size(row: Row) -> str:
    if "trials" in row:
        return f"{row['trials']} trials a model, up to {row['trees']:,} trees"
    return f"{row['specs']} x {row['repetitions']}, {count(row['interactions'])}"


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
        size = preset_size(preset)
        yield (
            f"Size: {size['specs']} Specs x {size['repetitions']} repetitions (--runs, --fold all), "
            f"{count(size['interactions'])} interactions. Below is one repetition of each on the twin."
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
