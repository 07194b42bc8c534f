"""The grid of a comparison: what is varied, what stays the same, and the cells that this makes."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationError, field_validator

from foltr_audit.comparing.alternatives import DEFAULT_ALTERNATIVES, Alternative, published_sensitivity
from foltr_audit.errors import UsageError
from foltr_audit.plan import Table, changed
from foltr_audit.plugins import Attack, ClickModel, Learner, Plugin
from foltr_audit.registry import first_problem, make
from foltr_audit.scenario_texts import canonical_scenarios
from foltr_audit.spec import DEFAULT_METHODS, DataSpec, Spec, default_learner
from foltr_audit.spec_table import SpecTable, once
from foltr_audit.study import Study


def _known(base: type[Plugin]) -> AfterValidator:
    """The canonical text of a plug-in; refuses one that is not there, or that refuses its parameters."""
    return AfterValidator(lambda text: make(base, text).text)


Kind = Literal["attack", "audit", "select"]

DEFAULT_ATTACKS = ("olsr", "lad", "map")
"""Attacks on models where none is named."""

SPEC_SCHEMA = "foltr-audit/spec/1"
_AUDIT = {"trials": 2000}


def default_attacks(learner: str) -> tuple[str, ...]:
    """The attacks that fit what a learner sends, where none is named."""
    sends = make(Learner, learner).sends
    return DEFAULT_METHODS.get({"metrics": "es"}.get(sends, sends), DEFAULT_ATTACKS)


_AXES = {"train.learner", "population.scenario", "train.click_model", "attack.click_models", "attack.methods"}
_FIXED = {"repetition", "defense", "data.fold"}


Point = tuple[str, str, str, float]
"""Learner, scenario, click model and epsilon that a sensitivity is chosen for."""


class Label(NamedTuple):
    """Which defense of the comparison a cell has.

    Attributes:
        alternative: as it was written.
        eps: the epsilon that it was made for; None where it is the same for every one.
        sensitivity: the Delta that it was made for; likewise.
    """

    alternative: str
    eps: float | None = None
    sensitivity: float | None = None


class Planned(NamedTuple):
    """One cell: a Spec, what it is for, and its defense's name.

    Attributes:
        spec: what is run.
        kind: `attack`: trained and attacked; `audit`: its claim checked; `select`: trained for the
            validation part alone, to choose a sensitivity.
        label: its defense.
    """

    spec: Spec
    kind: Kind
    label: Label


class LeftOut(NamedTuple):
    """A combination that cannot be, and why."""

    learner: str
    defense: str
    why: str


class Grid(SpecTable):
    """What a comparison varies, and what all of its cells share.

    Attributes:
        runs: repetitions of every cell; run i uses fold i mod K.
        eps: claimed epsilons.
        sensitivity: Delta for every epsilon; None for the published pairs.
        sensitivity_grid: Deltas of which the best on the validation part is taken, for each epsilon.
        delta: of proven claims whose noise has no pure bound.
        defenses: alternatives, see `foltr_audit.comparing.alternatives`.
        attacks: what reads clicks out of messages; none named: `DEFAULT_ATTACKS`, or what fits the learner.
        click_models, learners, scenarios: further axes; users click alike in training and attack.
        folds: folds of the data; 0 where they have none.
        audit: whether each claim is checked as well, once per learner, scenario and defense.
        spec: the tables that all Specs share.
    """

    schema_: Literal["foltr-audit/grid/1"] = Field("foltr-audit/grid/1", alias="schema")
    runs: int = Field(3, ge=1, le=10_000)
    eps: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = (1.2, 2.3, 4.5, 10.0)
    sensitivity: float | None = Field(None, gt=0)
    sensitivity_grid: tuple[Annotated[float, Field(gt=0)], ...] = ()
    delta: float = Field(1e-5, gt=0, lt=1)
    defenses: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(once)] = DEFAULT_ALTERNATIVES
    attacks: Annotated[tuple[Annotated[str, _known(Attack)], ...], AfterValidator(once)] = ()
    click_models: Annotated[
        tuple[Annotated[str, _known(ClickModel)], ...], Field(min_length=1), AfterValidator(once)
    ] = ("perfect", "navigational", "informational")
    learners: Annotated[
        tuple[Annotated[str, _known(Learner)], ...], Field(min_length=1), AfterValidator(once)
    ] = (default_learner(attacks=True),)
    scenarios: Annotated[
        tuple[Annotated[str, AfterValidator(canonical_scenarios)], ...],
        Field(min_length=1),
        AfterValidator(once),
    ] = ("uniform",)
    folds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    audit: bool = True
    spec: dict[str, Any] = Field(default_factory=lambda: {"attack": {}, "audit": _AUDIT})

    @field_validator("defenses")
    @classmethod
    def _known_alternatives(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        return once(tuple(Alternative(text).name for text in texts))

    @field_validator("spec")
    @classmethod
    def _says_nothing_of_the_axes(cls, table: dict[str, Any]) -> dict[str, Any]:
        for name in (*_AXES, *_FIXED):
            outer, _, inner = name.partition(".")
            held = table.get(outer)
            if (inner and isinstance(held, dict) and inner in held) or (not inner and outer in table):
                raise ValueError(f"{name} is varied by the grid; expected it outside of the table spec")
        return table

    @classmethod
    def parse(cls, table: Table, where: str = "") -> Grid:
        """The grid of a plain table.

        Raises:
            UsageError: an unknown field or a refused value.
        """
        source = f"{where}: " if where else ""
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise UsageError(source + first_problem(error, None)) from error
        except UsageError as error:
            raise UsageError(f"{source}{error}") from error

    @classmethod
    def from_toml(cls, text: str, where: str) -> Grid:
        """The grid of a TOML text; of a Spec's the grid of one point.

        Raises:
            UsageError: it is no TOML, or neither a valid grid nor a valid Spec.
        """
        try:
            table = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where}: not TOML: {error}") from error
        if table.get("schema") == SPEC_SCHEMA:
            return cls.of_spec(Spec.parse(table, where))
        return cls.parse(table, where)

    @classmethod
    def of_spec(cls, spec: Spec) -> Grid:
        """The grid whose one point is a Spec, beside no defense."""
        table = spec.table()
        for name in _FIXED:
            _drop(table, name)
        axes = {
            "learners": [_drop(table, "train.learner")],
            "scenarios": [_drop(table, "population.scenario")],
            "click_models": _drop(table, "attack.click_models") or [spec.train.click_model],
            "attacks": _drop(table, "attack.methods") or (),
        }
        _drop(table, "train.click_model")
        _drop(table, "schema")
        again = {"runs": 1, "folds": [spec.data.fold], "defenses": ["+".join(spec.defense)]}
        protocols = {"attack": table.pop("attack", {}), "audit": table.pop("audit", _AUDIT)}
        return cls.parse({**axes, **again, "spec": {**table, **protocols}})

    def table(self) -> Table:
        """The grid as a plain table."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def toml(self) -> str:
        """The TOML form."""
        import tomli_w

        return tomli_w.dumps(self.table())

    def data(self, fold: int) -> DataSpec:
        """Which data a fold is."""
        return DataSpec.model_validate({**self.spec.get("data", {}), "fold": fold})

    def spec_of(self, learner: str, scenario: str, click_model: str, run: int, kind: Kind) -> Spec:
        """The Spec without a defense of one point of the grid.

        Raises:
            UsageError: values that do not fit each other.
        """
        table = changed(
            {name: value for name, value in self.spec.items() if name not in ("attack", "audit")},
            {
                "repetition": run,
                "data.fold": self.folds[run % len(self.folds)],
                "population.scenario": scenario,
                "train.learner": learner,
                "train.click_model": click_model,
                "trace.every": 0,
            },
        )
        if kind == "attack":
            more = {"methods": self._methods(learner), "click_models": [click_model]}
            table["attack"] = {**self.spec.get("attack", {}), **more}
        elif kind == "audit":
            table["audit"] = self.spec.get("audit", {})
        return Spec.parse(table, "")

    def _methods(self, learner: str) -> list[str]:
        return list(self.attacks or default_attacks(learner))


def _drop(table: Table, dotted: str) -> Any:
    """Take a field out of a Spec's table; None where it is not there."""
    outer, _, inner = dotted.partition(".")
    held = table.get(outer)
    if inner:
        return held.pop(inner, None) if isinstance(held, dict) else None
    return table.pop(outer, None)


class Expansion:
    """The cells of a grid, and the combinations that cannot be."""

    def __init__(self, grid: Grid, study: Study, chosen: Mapping[Point, float]) -> None:
        """`study` loads the data, whose number of features some noise depends on; `chosen` are Deltas."""
        self.grid = grid
        self.study = study
        self.chosen = chosen
        self.left_out: dict[LeftOut, None] = {}
        self._chains: dict[tuple[str, str, Label], tuple[str, ...]] = {}

    def cells(self) -> list[Planned]:
        """Attacked and audited cells, repetitions outermost; equal Specs once.

        Raises:
            UsageError: no combination can be.
        """
        found = [*self._attacked(), *self._audited()] if self.grid.audit else list(self._attacked())
        if not found:
            why = "; ".join(dict.fromkeys(one.why for one in self.left_out))
            raise UsageError(f"compare: nothing to run: {why}")
        return list({cell.spec: cell for cell in reversed(found)}.values())[::-1]

    def selection(self, deltas: Sequence[float]) -> Iterator[Planned]:
        """Trainings of the published chain with each Delta, to choose among them."""
        published = Alternative("published")
        for run in range(self.grid.runs):
            for learner, scenario, click_model in self._settings():
                if make(Learner, learner).sends != "models":
                    continue
                blank = self.grid.spec_of(learner, scenario, click_model, run, "select")
                for eps, delta in product(self.grid.eps, deltas):
                    label = Label(published.text, eps, delta)
                    spec = self._defended(blank, learner, label)
                    if spec is not None:
                        yield Planned(spec, "select", label)

    def _sensitivity(self, point: Point) -> float:
        if self.grid.sensitivity is not None:
            return self.grid.sensitivity
        return self.chosen.get(point, published_sensitivity(point[-1]))

    def _settings(self) -> Iterator[tuple[str, str, str]]:
        return product(self.grid.learners, self.grid.scenarios, self.grid.click_models)

    def _attacked(self) -> Iterator[Planned]:
        for run in range(self.grid.runs):
            for learner, scenario, click_model in self._settings():
                blank = self._blank(learner, scenario, click_model, run, "attack")
                if blank is not None:
                    yield from self._alternatives(blank, learner, scenario, click_model, "attack")

    def _audited(self) -> Iterator[Planned]:
        seen = set()
        for learner, scenario, click_model in self._settings():
            blank = self._auditable(learner, scenario)
            several = self._alternatives(blank, learner, scenario, click_model, "audit") if blank else ()
            for cell in several:
                if (learner, scenario, cell.spec.defense) not in seen:
                    seen.add((learner, scenario, cell.spec.defense))
                    yield cell

    def _blank(self, learner: str, scenario: str, click_model: str, run: int, kind: Kind) -> Spec | None:
        """The Spec of a point without a defense; None, and noted, where there is none."""
        try:
            return self.grid.spec_of(learner, scenario, click_model, run, kind)
        except UsageError as error:
            self.left_out[LeftOut(make(Learner, learner).label, kind, str(error))] = None
            return None

    def _auditable(self, learner: str, scenario: str) -> Spec | None:
        """The Spec of an audit without a defense; None, and noted, where none can be."""
        from foltr_audit.auditing.audit import Audit  # grids without audits do without it

        blank = self._blank(learner, scenario, self.grid.click_models[0], 0, "audit")
        if blank is None or blank.audit is None:
            return None
        try:
            Audit(self.study.setup(blank), blank.audit)
        except UsageError as error:
            self.left_out[LeftOut(make(Learner, learner).label, "audit", str(error))] = None
            return None
        return blank

    def _alternatives(
        self, blank: Spec, learner: str, scenario: str, click_model: str, kind: Kind
    ) -> Iterator[Planned]:
        several = [Alternative(text) for text in self.grid.defenses]
        if not any(one.text == "none" for one in several):
            several.insert(0, Alternative("none"))
        for one in several:
            for eps in self.grid.eps if one.uses_epsilon else (None,):
                delta = None if eps is None else self._sensitivity((learner, scenario, click_model, eps))
                label = Label(one.text, eps, delta)
                spec = self._defended(blank, learner, label)
                if spec is not None:
                    yield Planned(self._claiming(spec, label), kind, label)

    def _claiming(self, spec: Spec, label: Label) -> Spec:
        """An audit of the epsilon that a chain is proven for; with a delta where it claims no pure one."""
        if spec.audit is None:
            return spec
        claim = Alternative(label.alternative).proven(label.eps, self.grid.delta)
        if claim is None:
            without = math.isinf(self.study.setup(spec).claim())
            claim = {"delta": self.grid.delta} if without and spec.audit.delta is None else {}
        return spec.model_copy(update={"audit": spec.audit.model_copy(update=claim)})

    def _defended(self, blank: Spec, learner: str, label: Label) -> Spec | None:
        """The Spec with a defense; None, and noted, where the two do not fit."""
        key = (learner, blank.data.source, label)
        try:
            if key not in self._chains:
                setup = self.study.setup(blank)
                self._chains[key] = Alternative(label.alternative).chain(
                    setup, label.eps or 1.0, label.sensitivity or 1.0, self.grid.delta
                )
            return Spec.parse({**blank.table(), "defense": list(self._chains[key])}, "")
        except UsageError as error:
            self.left_out[LeftOut(make(Learner, learner).label, label.alternative, str(error))] = None
            return None
