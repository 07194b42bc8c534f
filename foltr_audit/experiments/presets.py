"""Presets: published tables and figures as plans, with the numbers that were published.

A preset is a TOML file of the package `scenarios`. After its header (`about`, `source`, `kind`) it has

- `[data]`: the data that it needs, how to get them, and the synthetic source that can replace them;
- `[shared]`: Spec fields of all cells, and `[grid]`: lists of values by Spec field, all combined;
- one `[[cells]]` table per system with its `name` and its own `spec` and `grid`;
- where the authors' program does not do what their text says, both in `[readings.published]` (the program)
  and `[readings.written]` (the text): `about` in words, and `spec`; a cell may have a `spec` and a `grid` of
  its own in each, too;
- `[published]`: the source of the numbers, the numbers, in words what figures without numbers show, and in
  `[[published.tests]]` which systems were tested against which, with the marks of significant differences.

A preset of kind `merge` has a `[merge]` table instead of Specs: that study sends no messages. Nobody but us
writes presets: `tests/experiments/test_presets.py` says what each has to hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict

from foltr_audit.core.plugins import Learner
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.base import one_error
from foltr_audit.core.settings.experiment import flat
from foltr_audit.core.settings.train import TrainSpec
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.experiments.plan import Plan, Table, apply_changes, expand, table_in
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.reading import toml_table

RANDOM = "random:k="
"""Prefix of the name of random guessing; the number of guessed documents follows."""

FOLDS = 5
"""Folds of the data sets that the papers use."""

READINGS: Mapping[str, str] = {"published": "as published", "written": "as written", "": "found"}
"""Headings of the readings of a study: what the authors' program did, what their text says; and of the only
one, where the two agree or no program is known."""


class _PresetTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PresetData(_PresetTable):
    """The data that a preset needs, how to get and name them, and a synthetic source of similar data."""

    needs: str
    get: str
    twin: str


class PresetReading(_PresetTable):
    """How a study is played if its authors' program, or their text, is followed: Spec fields of all cells."""

    about: str
    spec: dict[str, Any] = {}


class CellReading(_PresetTable):
    """What a cell has of its own in a reading."""

    spec: dict[str, Any] = {}
    grid: dict[str, Any] = {}


class PresetCell(CellReading):
    """One system of a study: its own Spec fields, and lists of values by field, all of them combined."""

    name: str
    readings: dict[str, CellReading] = {}


class PublishedFigure(_PresetTable):
    """A number of a cell in a column of the report (`metric`).

    `where` are columns or Spec fields that select the row, e.g. `trained_on`; an estimate, or a number taken
    from a text, is `approximate`. A `mark` tells a significant difference, see `PublishedTest`.
    """

    cell: str
    metric: str
    where: dict[str, object] = {}
    value: float
    approximate: bool = False
    mark: str = ""


class SignificanceMark(_PresetTable):
    """The signs of differences whose p-values are below a limit: for the better, or for the worse."""

    below: float
    gain: str = ""
    loss: str = ""


class PublishedTest(_PresetTable):
    """Paired two-sided t-tests of a cell against others, at each place of its figures of a metric.

    Attributes:
        beside: pairs of places, of the cell and of the others, where these are not the same.
        marks: a place has one if all its tests are below the limit after Bonferroni's correction, all
            differences in one direction.
    """

    cell: str
    against: tuple[str, ...]
    metric: str
    beside: tuple[tuple[dict[str, object], dict[str, object]], ...] = ()
    marks: tuple[SignificanceMark, ...]

    def place_of_others(self, where: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The place of the others that is beside a place of the cell."""
        for ours, theirs in ((flat(mine), flat(other)) for mine, other in self.beside):
            if ours.items() <= where.items():
                return {name: value for name, value in where.items() if name not in ours} | theirs
        return dict(where)

    def mark(self, gains: Sequence[bool], p: Sequence[float | None]) -> str:
        """The sign of a place: of the lowest limit that all p-values are below; empty without one."""
        for limit in sorted(self.marks, key=lambda mark: mark.below):
            if len(set(gains)) == 1 and all(value is not None and value < limit.below for value in p):
                return limit.gain if gains[0] else limit.loss
        return ""


class AttackFigures(_PresetTable):
    """Published results of an attack, or `random:k=K`, under one click model: means over lists, 0 to 1."""

    method: str
    click_model: str
    accuracy: float
    precision: float
    recall: float


class Publication(_PresetTable):
    """Published results; `shows` says what figures without numbers show, or why there are no numbers."""

    title: str
    data: str
    shows: str = ""
    figures: tuple[PublishedFigure, ...] = ()
    attacks: tuple[AttackFigures, ...] = ()
    tests: tuple[PublishedTest, ...] = ()

    def of(self, method: str, click_model: str) -> AttackFigures | None:
        """The figures of an attack, whatever its parameters, or of random guessing; None without any."""
        names = (method, method.partition(":")[0])
        found = (one for one in self.attacks if one.method in names and one.click_model == click_model)
        return next(found, None)


class Preset(_PresetTable):
    """A published study.

    Each Spec of a cell is run `repetitions` times, spread over the folds, or once on each fold (None). Rounds
    are shortened to a multiple of `periods`, so that every period of a changing population has the same
    number of rounds, and at least one. `shared`, `grid` and `cells` are described above.
    """

    name: str
    about: str
    source: str
    kind: Literal["train", "attack", "merge"]
    data: PresetData
    repetitions: int | None = None
    periods: int = 1
    shared: dict[str, Any] = {}
    grid: dict[str, Any] = {}
    readings: dict[str, PresetReading] = {}
    cells: tuple[PresetCell, ...] = ()
    merge: dict[str, Any] = {}
    published: Publication

    @property
    def size(self) -> dict[str, object]:
        """Specs, repetitions and interactions of all of them; or trials and trees of a model.

        Data with folds that are run once each count as `FOLDS` repetitions.
        """
        if not self.cells:
            return {name: flat(self.merge).get(name) for name in ("trials", "trees")}
        specs, repetitions = self.plan.specs, self.repetitions or FOLDS
        each = [
            spec.population.cohort_size * spec.train.rounds * make(Learner, spec.train.learner).interactions
            for spec in specs
        ]
        return {"specs": len(specs), "repetitions": repetitions, "interactions": repetitions * sum(each)}

    @property
    def plan(self) -> Plan:
        """One repetition of every Spec, on the synthetic data."""
        return Plan.of(self.tables_in(self.reading_names), f"preset {self.name}")

    @property
    def reading_names(self) -> tuple[str, ...]:
        """Its readings; one without a name if there is no difference between program and text."""
        return tuple(name for name in READINGS if name in self.readings) or ("",)

    def tables_in(self, readings: Iterable[str], scale: float = 1.0) -> list[Table]:
        """The Spec tables of all cells in some readings, see `tables`."""
        every = [self.tables(scale, reading) for reading in readings]
        return [table for cells in every for mine in cells.values() for table in mine]

    def tables(self, scale: float = 1.0, reading: str = "") -> dict[str, list[Table]]:
        """The Spec tables of each cell by its name, on the synthetic data, with a share of the rounds.

        Without a `reading` they are of the first of `reading_names`.
        """
        name = reading or self.reading_names[0]
        whole = flat(self.readings[name].spec) if name else {}
        base = apply_changes({"data": {"source": self.data.twin}}, flat(self.shared) | whole)
        found: dict[str, list[Table]] = {}
        for cell in self.cells:
            own = cell.readings.get(name, CellReading())
            table = apply_changes(base, flat(cell.spec) | flat(own.spec))
            varied = [pair for grid in (self.grid, cell.grid, own.grid) for pair in flat(grid).items()]
            axes = [[{field: value} for value in cast(list[JsonValue], values)] for field, values in varied]
            found[cell.name] = [self._shortened(each, scale) for each in expand([table], *axes)]
        return found

    def merging(self, scale: float = 1.0) -> Table:
        """The table of the study of merged models, on the synthetic data, with a share of trials."""
        table: dict[str, object] = dict(flat(self.merge))
        if scale < 1:
            table |= {name: shorten(self.merge[name], scale) for name in ("trials", "trees") if name in table}
        return apply_changes({"data": {"source": self.data.twin}}, table)

    def _shortened(self, table: Table, scale: float) -> Table:
        """A table with fewer rounds and repeats, but as many clients, on which the noise depends."""
        if scale == 1:
            return apply_changes(table, {})
        rounds = cast(int, table_in(table, "train").get("rounds", TrainSpec().rounds))
        point: dict[str, object] = {"train.rounds": self.periods * shorten(rounds / self.periods, scale)}
        if table.get("attack") is not None:
            point["attack.repeats"] = shorten(cast(int, table_in(table, "attack").get("repeats", 1)), scale)
        return apply_changes(table, point)


def shorten(number: float, scale: float) -> int:
    """A share of a number, at least 1.

    >>> shorten(25, 0.1), shorten(25, 0.01)
    (2, 1)
    """
    return max(1, round(number * scale))


def preset_names() -> tuple[str, ...]:
    return tuple(sorted(_files()))


def load_preset(name: str) -> Preset:
    """The preset of a name."""
    known = _files()
    if name not in known:
        raise UsageError(f"unknown preset {name!r}; {suggest_name(name, known)} (foltr-audit study list)")
    return read_preset(known[name].read_text(encoding="utf-8"), name)


def read_preset(text: str, name: str) -> Preset:
    """The preset of a TOML text; a `UsageError` where a field is unknown or of another type."""
    table = toml_table(text, f"preset {name}", UsageError)
    with one_error(f"preset {name}: "):
        return Preset.model_validate({**table, "name": name})


def _files() -> dict[str, Traversable]:
    folder = resources.files("foltr_audit.scenarios") / "presets"
    entries = folder.iterdir() if folder.is_dir() else ()
    return {entry.name.removesuffix(".toml"): entry for entry in entries if entry.name.endswith(".toml")}
