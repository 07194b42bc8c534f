"""Presets: what each repeats, as a table and as TOML, and published figures beside those found here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import itemgetter
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.experiments.periods import SpecRuns, metrics_of_periods, runs_by_spec
from foltr_audit.experiments.presets import READINGS, Preset, PublishedTest
from foltr_audit.experiments.published import (
    ABOVE_OTHERS,
    CLICK_FIGURES,
    INTERVALS,
    PERIOD_COLUMN,
    REPETITIONS,
    SUM,
    Fields,
    StudyExtent,
    attack_figures,
    figure_beside,
    mark_of,
    published_tests,
    repeated_metrics,
    seed_intervals,
    trained_metrics,
)
from foltr_audit.experiments.run import Run
from foltr_audit.report.documents import Row, Section
from foltr_audit.report.settings import claim_words, heading, pools, utility_rows
from foltr_audit.report.table import Column, Table, columns_of, make_table, method_lines, short_method
from foltr_audit.report.terminal import print_lines, print_table
from foltr_audit.report.train import period_rows
from foltr_audit.utils.formatting import JsonValue, short

if TYPE_CHECKING:
    from rich.console import Console


def preset_row(preset: Preset) -> dict[str, Any]:
    """What a preset repeats, which data it needs, and its size."""
    return {
        **{name: getattr(preset, name) for name in ("name", "kind", "about", "source")},
        **preset.data.model_dump(),
        "systems": [cell.name for cell in preset.cells],
        **preset.size,
    }


def preset_document(preset: Preset) -> dict[str, Any]:
    """Everything known of a preset: its row, one repetition of every Spec, and what the study found."""
    import tomli_w

    plan = preset.plan.table() if preset.cells else {"merge": preset.merging()}
    published = preset.published.model_dump(mode="json")
    return {**preset_row(preset), "plan": plan, "toml": tomli_w.dumps(plan), "published": published}


def preset_text(preset: Preset) -> str:
    """The plan as TOML, with all else as comments."""
    document = preset_document(preset)
    comments = [line for text in _comments(preset, document) for line in wrap(text, 100)]
    return "\n".join([*(f"# {line}".rstrip() for line in comments), "", document["toml"].rstrip()])


def _comments(preset: Preset, row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{preset.name}: {preset.about}"
    yield f"Source: {preset.source}."
    yield f"Data: {preset.data.needs}: {preset.data.get}. Its synthetic twin is {preset.data.twin}."
    if preset.cells:
        yield (
            f"Size: {row['specs']} Specs x {row['repetitions']} repetitions (--runs, --fold all), "
            f"{count(row['interactions'])} interactions. Below is one repetition of each on the twin."
        )
    for name, mine in preset.readings.items():
        yield f"{READINGS[name].capitalize()} (--reading {name}): {mine.about}"
    published = preset.published
    yield f"Published: {published.title}, of {published.data}."
    if published.shows:
        yield published.shows
    for figure in published.figures:
        where = "".join(f", {name}={value}" for name, value in flat(figure.where).items())
        number = f"{'about ' * figure.approximate}{figure.value:g} {figure.mark}".rstrip()
        yield f"  {figure.cell}{where}: {figure.metric} {number}"
    for attack in published.attacks:
        figures = ", ".join(f"{name} {getattr(attack, name):g}" for name in CLICK_FIGURES)
        yield f"  {attack.method}, {attack.click_model} clicks: {figures}"


def preset_table(presets: Iterable[Preset]) -> Table:
    """One line per preset."""
    return make_table(
        "presets: foltr-audit study show NAME, study run NAME",
        [
            *columns_of("name:name; what it repeats=about:words; data=needs:words"),
            Column("size", _size_text, "words"),
        ],
        map(preset_row, presets),
        caption="size: Specs x repetitions, and interactions of all of them, at scale 1",
        section=itemgetter("name"),
    )


def _size_text(row: Mapping[str, Any]) -> str:
    if "specs" not in row:
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


CLICKS = Section(
    "reading cell method click_model trained_on eps_claimed:num defense pdgd folds:int lists:int",
    *(f"{name}:est" for name in CLICK_FIGURES),
    *(f"{name}{ABOVE_OTHERS}:est" for name in CLICK_FIGURES),
    *(f"published_{name}:num" for name in CLICK_FIGURES),
)
"""Figures of attacks: one row per reading and cell of the preset, setting, click model and method."""

FIGURE = Section(
    "reading cell where:table metric published:num approximate:bool published_mark found:num|null "
    "found_mark low:num|null high:num|null difference:num|null published_a_round:num|null "
    "found_a_round:num|null"
)
"""A published number, and in a reading the mean of the values found in its place, with its interval over
seeds; with the marks of significant differences, empty where there is none."""

TESTED = Section(
    "reading cell where:table metric against where_other:table pairs:int difference:est p:num|null "
    "p_bonferroni:num|null comparisons:int mark"
)
"""A test behind a mark, see `published_tests`."""


@dataclass(frozen=True, kw_only=True)
class PresetComparison:
    """Published figures and those found, in rows: of attacks `CLICKS`, else `FIGURE`, with their tests."""

    preset: Preset
    extent: StudyExtent
    rows: Sequence[Row]
    tests: Sequence[Row] = ()

    @classmethod
    def of(
        cls, preset: Preset, runs: Mapping[str, Mapping[str, Sequence[Run]]], extent: StudyExtent
    ) -> PresetComparison:
        """The comparison with what was run in each reading for each cell, by their names."""
        if preset.published.attacks:
            rows = [
                CLICKS.of(pool.setting, reading=reading, cell=name, **figures)
                for reading, cells in runs.items()
                for name, of_cell in cells.items()
                for pool in pools(of_cell)
                for figures in attack_figures(preset.published, pool.runs)
            ]
            return cls(preset=preset, extent=extent, rows=rows)
        among = runs_by_spec(
            [run for cells in runs.values() for of_cell in cells.values() for run in of_cell]
        )
        found = {
            reading: {name: list(_found(of_cell, among)) for name, of_cell in cells.items()}
            for reading, cells in runs.items()
        }
        return cls.of_figures(preset, found, extent)

    @classmethod
    def of_figures(
        cls, preset: Preset, found: Mapping[str, Mapping[str, Sequence[Fields]]], extent: StudyExtent
    ) -> PresetComparison:
        """The comparison with the rows of reports, by reading and by the cell of the preset."""
        full = {name: {Spec.parse(each).train.rounds for each in of} for name, of in preset.tables().items()}
        tests = {reading: list(published_tests(preset.published, cells)) for reading, cells in found.items()}
        rows = [
            FIGURE.row(
                {
                    "reading": reading,
                    **figure_beside(figure, cells.get(figure.cell, []), full.get(figure.cell, ())),
                    "found_mark": mark_of(figure, tests[reading]),
                }
            )
            for figure in preset.published.figures
            for reading, cells in found.items()
        ]
        tested = [TESTED.row({"reading": reading, **test}) for reading, of in tests.items() for test in of]
        return cls(preset=preset, extent=extent, rows=rows, tests=tested)

    def only(self, *cells: str) -> PresetComparison:
        """The rows of some cells."""
        return replace(self, rows=[row for row in self.rows if row["cell"] in cells])

    @property
    def heading(self) -> str:
        return f"{self.preset.name}: {self.preset.published.title}, on {self.extent}"

    def table(self) -> dict[str, JsonValue]:
        """Everything as one plain table."""
        published = self.preset.published
        return {
            "preset": self.preset.name,
            "source": self.preset.source,
            "title": published.title,
            "published_data": published.data,
            "shows": published.shows,
            **vars(self.extent),
            "overridden": [each._asdict() for each in self.extent.overridden],
            "readings": {name: mine.about for name, mine in self.preset.readings.items()},
            "rows": [row.plain() for row in self.rows],
            "tests": [row.plain() for row in self.tests],
        }

    def print(self, console: Console) -> None:
        """Print the figures as tables, and what is published without numbers."""
        published = self.preset.published
        cells = dict.fromkeys(row["cell"] for row in self.rows)
        whole = [self] if self.rows else []
        parts = whole if self.preset.cells else map(self.only, cells)
        for table in _attack_tables(self) if published.attacks else map(_figure_table, parts):
            print_table(table, console)
            console.print()
        if published.shows and not published.attacks:
            print_lines([f"published: {published.shows}"], console)


def _attack_tables(comparison: PresetComparison) -> Iterator[Table]:
    """One table per setting: published figures, then a column per reading and cell."""
    published = comparison.preset.published
    systems = list(dict.fromkeys((row["reading"], row["cell"]) for row in comparison.rows))
    names = [_system(*system) for system in systems]
    settings = dict.fromkeys((row["trained_on"], row["defense"]) for row in comparison.rows)
    for setting in settings:
        rows = [row for row in comparison.rows if (row["trained_on"], row["defense"]) == setting]
        first, folds = rows[0], max(row["folds"] for row in rows)
        several = f", {claim_words(first['eps_claimed'])}, trained on {first['trained_on']}"
        means = f"means of {folds} folds" if folds > 1 else "means"
        yield make_table(
            f"{published.title}{several if len(settings) > 1 else ''}: {'/'.join(CLICK_FIGURES)}",
            [
                Column("clicks", itemgetter(1), "name"),
                Column("method", itemgetter(2), "fold", narrow=method_lines),
                *(Column(header, itemgetter(n)) for n, header in enumerate(("published", *names), start=3)),
            ],
            list(_attack_lines(rows, systems)),
            caption=f"published: of {published.data}; the others: {means} of {comparison.extent}\n"
            "lists without a guess do not count in the precision",
            space=0,
            section=itemgetter(0),
            spare=names[:-1],
        )
        yield from _above_others_table(rows)


def _above_others_table(rows: Sequence[Row]) -> Iterator[Table]:
    """Of each system and click model: the attack that was published as the best, less the best other one."""
    best: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if row.estimate(f"accuracy{ABOVE_OTHERS}").known and not math.isnan(row["published_accuracy"]):
            place = row["reading"], row["cell"], row["click_model"]
            if row["published_accuracy"] > best.setdefault(place, row)["published_accuracy"]:
                best[place] = row
    if not best:
        return
    names = dict.fromkeys(short_method(row["method"]) for row in best.values())
    yield make_table(
        f"{' and '.join(names)} less the best other attack",
        [
            Column("", lambda row: _system(row["reading"], row["cell"]), "name"),
            *columns_of("clicks=click_model:name"),
            *(Column(name, f"{name}{ABOVE_OTHERS}", beside=True) for name in CLICK_FIGURES),
        ],
        list(best.values()),
        caption="in brackets: the 95 % interval over queries, whichever attack is the best other one",
        section=itemgetter("reading", "cell"),
    )


def _system(reading: str, cell: str) -> str:
    """What was run: a reading, or the cell of a preset without readings."""
    return READINGS[reading] if reading else cell


def _attack_lines(rows: Sequence[Row], systems: Sequence[tuple[str, str]]) -> Iterator[tuple[str, ...]]:
    """Click model, the same if it is shown, method, published figures, and those of each reading and cell.

    An attack is in one line with the same attack with other parameters in the others.
    """
    of_method: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        of_method.setdefault((row["click_model"], short_method(row["method"])), []).append(row)
    shown = ""
    for (clicks, name), same in of_method.items():
        columns = ([row for row in same if (row["reading"], row["cell"]) == system] for system in systems)
        for line in zip_longest(*columns):
            there = [row for row in line if row is not None]
            methods = {row["method"] for row in there}
            figures = ("-" if row is None else _figures_text(row, "", 3) for row in line)
            method = methods.pop() if len(methods) == 1 else name
            published = _figures_text(there[0], "published_", 2)
            yield clicks, "" if clicks == shown else clicks, method, published, *figures
            shown = clicks


def _figures_text(row: Row, prefix: str, digits: int) -> str:
    if math.isnan(row.number(f"{prefix}accuracy")):
        return "-"
    return "/".join(short(row.number(prefix + name), digits) for name in CLICK_FIGURES)


def _found(runs: Sequence[Run], among: SpecRuns) -> Iterator[Fields]:
    """Rows of a cell's reports with their Spec fields; twins are searched `among` all runs."""
    for pool in pools(runs):
        fields = flat(pool.runs[0].spec.table())
        trained = [trained_metrics(run) for run in pool.runs]
        periods = [metrics_of_periods(run, among) for run in pool.runs]
        for row in (*utility_rows(pool.runs), *period_rows(pool.runs, among)):
            period = row.get(PERIOD_COLUMN)
            metrics = (
                trained
                if period is None
                else [{name: float(values[period - 1]) for name, values in each.items()} for each in periods]
            )
            yield {
                **fields,
                **row.plain(),
                INTERVALS: seed_intervals(pool.runs, metrics),
                REPETITIONS: repeated_metrics(pool.runs, metrics),
            }


def _figure_table(comparison: PresetComparison) -> Table:
    """A line for each published number: with what was found in its place in each reading."""
    rows, extent, published = comparison.rows, comparison.extent, comparison.preset.published
    marked = any(row["published_mark"] or row["found_mark"] for row in rows)
    metrics = dict.fromkeys(row["metric"].replace("_", " ") for row in rows)
    summed = any(row["metric"] == SUM for row in rows)
    intervals = any(row["low"] is not None for row in rows)
    readings = list(dict.fromkeys(row["reading"] for row in rows))
    lines = [rows[first : first + len(readings)] for first in range(0, len(rows), len(readings))]

    def where(names: Sequence[str]) -> Column:
        """The place in columns that all numbers have, or in those that only some have, one column for all."""

        def text(line: Sequence[Row]) -> str:
            place = {name: line[0]["where"][name] for name in names if name in line[0]["where"]}
            return ", ".join(
                claim_words(float(value)) if name == "eps_claimed" else str(value)
                for name, value in place.items()
            )

        return Column(heading(names[0]) if len(names) == 1 else "setting", text, "fold")

    def ends(row: Row) -> str:
        return "" if row["low"] is None else f"[{_figure_text(row, 'low')}, {_figure_text(row, 'high')}]"

    def found(place: int) -> Iterator[Column]:
        yield Column(READINGS[readings[place]], lambda line: _marked_text(line[place], "found", marked))
        if intervals:
            yield Column("95 % interval", lambda line: ends(line[place]))
        yield Column("difference", lambda line: _difference_text(line[place]))

    def a_round(header: str, name: str, place: int) -> Column:
        return Column(header, lambda line: short(line[place][name]))

    places = range(len(readings))
    each_round = [
        a_round("a round:\npublished", "published_a_round", 0),
        *(
            a_round("a round:\n" * (len(readings) > 1) + READINGS[readings[n]], "found_a_round", n)
            for n in places
        ),
    ]
    columns = [
        Column("system", lambda line: line[0]["cell"], "fold"),
        *map(where, _place_columns([row["where"] for row in rows])),
        *([Column("metric", lambda line: line[0]["metric"].replace("_", " "), "fold")] * (len(metrics) > 1)),
        Column("published", lambda line: _marked_text(line[0], "published", marked)),
        *(column for place in places for column in found(place)),
        *(each_round * summed),
    ]
    about = comparison.preset.readings
    notes = {
        f"published: of {published.data}; {'the others' if any(readings) else 'found'}: on {extent}": True,
        **{f"{READINGS[name]}: {about[name].about}": True for name in readings if name in about},
        "~: published as an approximate number": any(row["approximate"] for row in rows),
        **{note: True for test in published.tests for note in _mark_notes(test, comparison.tests)},
        "95 % interval: of the mean over repetitions; within folds if each fold was run twice": intervals,
        "a round: the sum divided by that of the discounts of its rounds": summed,
        "scaled: models have learnt from fewer rounds, and means are of fewer runs": extent.scale < 1,
    }
    return make_table(
        f"{published.title}: {', '.join(metrics)} as published and found",
        columns,
        lines,
        caption="\n".join(note for note, applies in notes.items() if applies),
        spare=("difference", *(column.header for column in each_round), "95 % interval")
        if len(readings) > 1
        else (),
    )


def _place_columns(places: Sequence[Mapping[str, object]]) -> list[list[str]]:
    """The columns that name a place: each that all places have alone, the others together."""
    names = list(dict.fromkeys(name for place in places for name in place))
    everywhere = [name for name in names if all(name in place for place in places)]
    others = [name for name in names if name not in everywhere]
    return [*([name] for name in everywhere), *([others] if others else [])]


def _marked_text(row: Row, name: str, marked: bool) -> str:
    """The `published` or `found` number with its mark, in the last place of a column with marks."""
    about = "~" if name == "published" and row["approximate"] else ""
    mark = row[f"{name}_mark"] or " "
    return f"{about}{_figure_text(row, name)}{mark if marked else ''}"


def _mark_notes(test: PublishedTest, tests: Sequence[Row]) -> Iterator[str]:
    """What the marks of a test mean, and how many tests they come from."""
    signs = "; ".join(
        ", ".join(f"{sign} {kind}" for kind, sign in (("gain", mark.gain), ("loss", mark.loss)) if sign)
        + f" with p < {short(mark.below, 2)}"
        for mark in test.marks
    )
    yield f"{test.metric.replace('_', ' ')} of {test.cell} over {' and over '.join(test.against)}: {signs}"
    mine = [row for row in tests if (row["cell"], row["metric"]) == (test.cell, test.metric)]
    number = max((row["comparisons"] for row in mine), default=0)
    if number:
        yield f"paired t-test over repetitions, Bonferroni's correction for {number} tests"
    else:
        yield "no mark is tested: expected two repetitions or more of both"


def _figure_text(row: Row, name: str) -> str:
    """A number next to the published one: counts in full, sums with two digits, else with three."""
    value, published = row[name], row["published"]
    if value is not None and abs(published) >= 1 and float(published).is_integer():
        return f"{value:,.0f}"
    return short(value, 2 if row["metric"] == SUM else 3)


def _difference_text(row: Row) -> str:
    text = _figure_text(row, "difference")
    return text if text.startswith("-") else f"+{text}"
