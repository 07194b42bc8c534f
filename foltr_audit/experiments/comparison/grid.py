"""The grid of a comparison: what is varied, what stays the same, and the cells that this makes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal, NamedTuple, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator

from foltr_audit.core.plugins import Learner
from foltr_audit.core.plugins.answers import one_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.base import (
    Flag,
    SpecTable,
    canonical,
    chain_texts,
    once,
    one_error,
    with_default,
)
from foltr_audit.core.settings.data import DataSpec, without_paths
from foltr_audit.core.settings.defaults import (
    CLICK_MODELS,
    DELTA,
    LISTS_ATTACK,
    MODEL_ATTACKS,
    NO_DEFENSE,
    SCENARIO,
)
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.population import canonical_scenarios
from foltr_audit.core.settings.spec_fit import with_server_defaults
from foltr_audit.core.settings.train import default_learner
from foltr_audit.errors import DataError, UsageError, first_problem
from foltr_audit.experiments.comparison.alternatives import (
    DEFAULT_ALTERNATIVES,
    PUBLISHED,
    DefenseAlternative,
    fill_places,
)
from foltr_audit.experiments.plan import Table, apply_changes, table_in
from foltr_audit.experiments.runner import Runner
from foltr_audit.privacy.events import CorrelatedNoise
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.utils.formatting import epsilon
from foltr_audit.utils.reading import toml_table

Kind = Literal["attack", "lists", "sum", "audit", "select"]
ATTACKS: tuple[Kind, ...] = ("attack", "lists", "sum")
"""Kinds of cells with an attack, by what the attacked server sees: messages, also lists, or sums."""

SPEC_SCHEMA = "foltr-audit/spec/1"
_AUDITED = ("individual", "individual+lists", "aggregate")
_DEFENSES = (
    "none, published, published + secure-aggregation, proven-laplace, proven-click-rr, proven-skellam + "
    "secure-aggregation"
)
_AXES = {"train.learner", "population.scenario", "train.click_model", "attack.click_models", "attack.methods"}
_FIXED = {"repetition", "defense", "data.fold"}
_OF_OBSERVER = {"target", "view", "interactions", "lists", "hide", "colluders", "queries"}
"""Fields of an attack that say which server attacks what."""


def _alternative_text(value: object) -> object:
    """An alternative as text; a defense or a chain of them may be given as objects."""
    if isinstance(value, str):
        return value
    texts = chain_texts(value)
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        return "+".join(texts)
    return value


class ComparisonGrid(SpecTable):
    """What a comparison varies, and what all of its cells share.

    Run i uses fold i mod K; folds are 0 where the data have none. Users click the same way in training and
    attack. If no attack is named, those of `AttackSpec.methods_on` run. `spec` has the tables that all Specs
    share; a server in it that isolates clients sets what is attacked and audited, as in any Spec.
    """

    schema_: Literal["foltr-audit/grid/1"] = Field("foltr-audit/grid/1", alias="schema")
    runs: int = Field(3, ge=1, le=10_000)
    eps: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(min_length=1),
        Flag(default="1.2, 2.3, 4.5 and 10, as published"),
    ] = Field((1.2, 2.3, 4.5, 10.0), description="Claimed epsilon.")
    sensitivity: Annotated[float | None, Flag(default="as published, 3 below eps 4.5 and 5 from there")] = (
        Field(None, gt=0, description="Sensitivity for every eps.")
    )
    sensitivity_grid: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Flag(form="text")] = Field(
        (),
        description="Sensitivities, e.g. 1,3,5,7,9. Each eps takes the one with the best nDCG on the "
        "validation split.",
    )
    delta: float = Field(DELTA, gt=0, lt=1, description="Delta of defenses without a pure bound.")
    defenses: Annotated[
        tuple[Annotated[str, BeforeValidator(_alternative_text)], ...],
        Field(min_length=1),
        AfterValidator(once),
        Flag("defense", _DEFENSES),
    ] = Field(
        DEFAULT_ALTERNATIVES,
        description="An alternative: parts joined by +. A part is published (the learner's own defense for "
        "each eps), proven-MECHANISM (the least noise that accounting proves for one interaction, see "
        "calibrate) or a plug-in, which may contain {eps}, {sensitivity} and {clip} (half of the "
        "sensitivity). May be repeated; none is always included.",
    )
    attacks: Annotated[
        tuple[Annotated[str, canonical("attack")], ...],
        AfterValidator(once),
        Flag("method", "olsr, lad and map, or those that fit the learner"),
    ] = Field((), description="Attack.")
    click_models: Annotated[
        tuple[Annotated[str, canonical("click model")], ...],
        Field(min_length=1),
        AfterValidator(once),
        Flag("click-model"),
    ] = Field(CLICK_MODELS, description="How users click, in training and when attacked.")
    learners: Annotated[
        tuple[Annotated[str, canonical("learner")], ...], Field(min_length=1), AfterValidator(once)
    ] = (default_learner(attacks=True),)
    scenarios: Annotated[
        tuple[Annotated[str, AfterValidator(canonical_scenarios)], ...],
        Field(min_length=1),
        AfterValidator(once),
        Flag("scenario"),
    ] = Field(
        (SCENARIO,),
        description="How clients differ; + combines scenarios. May be repeated: scenarios are compared.",
    )
    folds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    audit: bool = Field(default=True, description="Audit each claim too, once for each chain.")
    every_observer: bool = Field(
        default=True,
        description="Attack, in the first run, also what a server sees that sees the lists, or only sums.",
    )
    spec: dict[str, object] = Field(default_factory=lambda: dict[str, object](attack={}, audit={}))

    @field_validator("defenses")
    @classmethod
    def _known_alternatives(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        return once(tuple(DefenseAlternative(text).name for text in texts))

    @field_validator("spec")
    @classmethod
    def _says_nothing_of_the_axes(cls, table: dict[str, object]) -> dict[str, object]:
        for name in ("membership", "unlearning"):
            if name in table:
                raise ValueError(f"{name}: a comparison has no such protocol; expected no table {name}")
        for name in (*_AXES, *_FIXED):
            outer, _, inner = name.partition(".")
            held = table.get(outer)
            if (inner and isinstance(held, dict) and inner in held) or (not inner and outer in table):
                raise ValueError(f"{name} is varied by the grid; expected outside of the table spec")
        shared = {name: value for name, value in table.items() if name not in ("attack", "audit")}
        Spec.parse(apply_changes(cast("Table", shared), {"train.learner": default_learner(attacks=True)}), "")
        for name, kind in (("attack", AttackSpec), ("audit", AuditSpec)):
            try:
                kind.model_validate(table.get(name, {}))
            except ValidationError as error:
                raise UsageError(f"{name}.{first_problem(error, None)}") from error
        return table

    @classmethod
    def parse(
        cls, table: Mapping[str, object], where: str = "", names: Mapping[str, str] | None = None
    ) -> ComparisonGrid:
        """The grid of a plain table; a `UsageError` for an unknown field or a refused value."""
        with one_error(f"{where}: " if where else "", names):
            return cls.model_validate(table)

    @classmethod
    def from_toml(cls, text: str, where: str) -> ComparisonGrid:
        """The grid of a TOML text, which may also be a Spec: then the grid of one point."""
        table = toml_table(text, where, UsageError)
        if table.get("schema") == SPEC_SCHEMA:
            return cls.of_spec(Spec.parse(table, where))
        return cls.parse(table, where)

    @classmethod
    def of_spec(cls, spec: Spec) -> ComparisonGrid:
        """The grid whose one point is a Spec, compared with no defense."""
        table = spec.table()
        for name in _FIXED:
            _drop(table, name)
        axes: dict[str, object] = {
            "learners": [_drop(table, "train.learner")],
            "scenarios": [_drop(table, "population.scenario")],
            "click_models": _drop(table, "attack.click_models") or [spec.train.click_model],
            "attacks": spec.with_strong_attacks().attacks if _drop(table, "attack.methods") else (),
        }
        _drop(table, "train.click_model")
        _drop(table, "schema")
        again = {"runs": 1, "folds": [spec.data.fold], "defenses": ["+".join(spec.defense)]}
        # A Spec names every field: one of the default says nothing of what the server sees.
        usual = AttackSpec().model_dump(mode="json")
        attack = {
            name: value
            for name, value in table_in(table, "attack").items()
            if name not in _OF_OBSERVER or value != usual[name]
        }
        audit = table_in(table, "audit")
        return cls.parse({**axes, **again, "spec": {**table, "attack": attack, "audit": audit}})

    def table(self) -> Table:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def public(self) -> ComparisonGrid:
        """The same grid without local paths."""
        return self.model_copy(update={"spec": without_paths(self.spec)})

    @property
    def toml(self) -> str:
        import tomli_w

        return tomli_w.dumps(self.table())

    def data(self, fold: int) -> DataSpec:
        return DataSpec.model_validate({**table_in(self.spec, "data"), "fold": fold})

    def spec_of(
        self,
        learner: str,
        scenario: str,
        click_model: str,
        run: int,
        kind: Kind,
        defense: tuple[str, ...] = (NO_DEFENSE,),
    ) -> Spec:
        """The Spec of one point of the grid, with a chain of defenses."""
        table = apply_changes(
            {name: value for name, value in self.spec.items() if name not in ("attack", "audit")},
            {
                "repetition": run,
                "data.fold": self.folds[run % len(self.folds)],
                "population.scenario": scenario,
                "train.learner": learner,
                "train.click_model": click_model,
                "defense": [*defense],
            },
        )
        if kind in ATTACKS:
            more: Table = {"methods": [*self.attacks] or None, "click_models": [click_model]}
            table["attack"] = {**table_in(self.spec, "attack"), **more, **self._observer(learner, kind)}
        elif kind == "audit":
            table["audit"] = table_in(self.spec, "audit")
        spec = Spec.parse(_with_defaults(table, kind), "")
        strong = self.attacks or kind != "attack"
        return spec if strong else spec.with_strong_attacks()  # the Spec of a cell names its attacks

    def _observer(self, learner: str, kind: Kind) -> Table:
        """What makes the attack one on what another server sees than each message."""
        named = [*(self.attacks or (MODEL_ATTACKS[0],))]
        if kind == "lists":
            lists = "sampled" if make(Learner, learner).lists == "sampled" else None
            return {"interactions": 2, "lists": lists, "methods": [*once((*named, LISTS_ATTACK))]}
        if kind == "sum":
            return {"view": "cohort", "methods": [*once((*named, MODEL_ATTACKS[0]))]}
        return {}

    @property
    def attacks_every_observer(self) -> bool:
        """Whether `lists` and `sum` are attacked too: unless the protocol says what the server sees."""
        told = _OF_OBSERVER & table_in(self.spec, "attack").keys()
        return self.every_observer and not told and "server" not in table_in(self.spec, "train")


def _with_defaults(table: Table, kind: Kind) -> Mapping[str, object]:
    """What a server asks for, else the audited views; messages are recorded only where they are attacked."""
    found = with_server_defaults(table)
    if kind == "audit":
        found = with_default(found, "audit", "views", _AUDITED)
    attack, trace = (dict(cast("Table", found.get(name, {}))) for name in ("attack", "trace"))
    trace.pop("every", None)
    recorded = kind == "attack" and attack.get("target") == "training"
    return {**found, "trace": trace if recorded else {**trace, "every": 0}}


def _drop(table: Table, dotted: str) -> object:
    """Remove a field from a Spec's table and return it; None where it is absent."""
    outer, _, inner = dotted.partition(".")
    return table_in(table, outer).pop(inner, None) if inner else table.pop(outer, None)


Setting = tuple[str, str, str]
"""Learner, scenario and click model."""

Point = tuple[str, str, str, float]
"""A setting and the epsilon that a sensitivity is chosen for."""


class DefenseLabel(NamedTuple):
    """Which defense of the comparison a cell has, and the epsilon and sensitivity that it was made for."""

    alternative: str
    eps: float | None = None
    sensitivity: float | None = None

    @property
    def text(self) -> str:
        """The name of its row, e.g. `published, eps 1.2`; the places of a template are filled."""
        if self.eps is None:
            return self.alternative
        name = fill_places(
            self.alternative, self.eps, math.nan if self.sensitivity is None else self.sensitivity
        )
        return name if "{eps}" in self.alternative else f"{name}, eps {epsilon(self.eps)}"


class CellPlan(NamedTuple):
    """One cell: `ATTACKS` train and attack, `audit` checks the claim, `select` only trains."""

    spec: Spec
    kind: Kind
    label: DefenseLabel

    @property
    def command(self) -> str:
        """The command that runs its Spec alone."""
        return {"audit": "audit", "select": "train"}.get(self.kind, "attack")

    @property
    def name(self) -> str:
        """Its defense, clicks, run and, of `lists` and `sum`, its kind.

        E.g. `published, eps 1.2, perfect clicks, run 0`.
        """
        eps = "" if self.label.eps is None else f", eps {self.label.eps:g}"
        where = f"{self.spec.train.click_model} clicks, run {self.spec.repetition}"
        more = f", {self.kind}" if self.kind in ATTACKS[1:] else ""
        return f"{self.label.alternative}{eps}, {where}{more}"


@dataclass(frozen=True, kw_only=True)
class GridExclusion:
    """A combination that cannot be run, and why."""

    learner: str
    defense: str
    why: str


@dataclass(frozen=True)
class SensitivityTrial:
    """A sensitivity that was tried for one point of the grid.

    `ndcg` is the mean nDCG@10 on the validation split over runs; `chosen` is the best, of equals the
    smallest.
    """

    learner: str
    scenario: str
    click_model: str
    eps: float
    sensitivity: float
    ndcg: float
    chosen: bool = False

    @property
    def point(self) -> Point:
        return self.learner, self.scenario, self.click_model, self.eps


class GridExpansion:
    """The cells of a grid, and the combinations that cannot be run."""

    def __init__(self, grid: ComparisonGrid, study: Runner, chosen: Mapping[Point, float]) -> None:
        """`study` loads the data, on whose features some noise depends; `chosen` are sensitivities."""
        self.grid = grid
        self.study = study
        self.chosen = chosen
        self.left_out: dict[GridExclusion, None] = {}
        self._settings = list(product(grid.learners, grid.scenarios, grid.click_models))
        self._chains: dict[tuple[str, str, DefenseLabel], tuple[str, ...]] = {}

    def cells(self) -> list[CellPlan]:
        """Attacked and audited cells, ordered by repetition first.

        Each Spec once, under its first name; another name of the same chain is left out.
        """
        found = [
            cell for run in range(self.grid.runs) for at in self._settings for cell in self._attacked(at, run)
        ]
        if self.grid.attacks_every_observer:
            found += [
                cell for at in self._settings for kind in ATTACKS[1:] for cell in self._observed(at, kind)
            ]
        if self.grid.audit:
            found += self._audited()
        if not found:
            why = "; ".join(dict.fromkeys(one.why for one in self.left_out))
            raise UsageError(f"compare: nothing to run: {why}")
        first: dict[Spec, CellPlan] = {}
        for cell in found:
            kept = first.setdefault(cell.spec, cell)
            if kept.label != cell.label:
                self._leave_out(
                    cell.spec.train.learner, cell.label.text, f"the same chain as {kept.label.text}"
                )
        return list(first.values())

    def _leave_out(self, learner: str, defense: str, why: object) -> None:
        label = make(Learner, learner).label
        self.left_out[GridExclusion(learner=label, defense=defense, why=str(why))] = None

    def selection(self, deltas: Sequence[float]) -> Iterator[CellPlan]:
        """Trainings of the published chain with each Delta."""
        for run, at in product(range(self.grid.runs), self._settings):
            if make(Learner, at[0]).sends != "models":
                continue
            blank = self.grid.spec_of(*at, run, "select")
            for eps, delta in product(self.grid.eps, deltas):
                label = DefenseLabel(PUBLISHED, eps, delta)
                spec = self._defended(blank, "select", label)
                if spec is not None:
                    yield CellPlan(spec, "select", label)

    def _attacked(self, at: Setting, run: int) -> Iterator[CellPlan]:
        blank = self._blank(at, run, "attack")
        return iter(()) if blank is None else self._alternatives(blank, at, "attack")

    def _observed(self, at: Setting, kind: Kind) -> Iterator[CellPlan]:
        """The first run of each defense, attacked by a server that sees lists, or sums alone."""
        learner = at[0]
        if self._blank(at, 0, "attack") is None or make(Learner, learner).sends != "models":
            return
        try:
            blank = self.grid.spec_of(*at, 0, kind)
            setup = self.study.setup(blank)
            if kind == "lists" and not setup.clients.lists_follow_clicks:
                return
            _ = FreshClients(setup, blank.attack or AttackSpec()).queries  # refuses too few of them
        except (UsageError, DataError) as error:
            self._leave_out(learner, f"attack on {kind}", error)
            return
        for cell in self._alternatives(blank, at, kind):
            events = self.study.setup(cell.spec).privacy.events()
            # Nobody adds this noise to a sum of fresh clients, which would look less private.
            if kind == "lists" or not any(isinstance(event, CorrelatedNoise) for event in events):
                yield cell

    def _audited(self) -> Iterator[CellPlan]:
        """The audit of each chain, once for all clicks."""
        seen = set()
        for at in self._settings:
            blank = self._blank((*at[:2], self.grid.click_models[0]), 0, "audit")
            for cell in self._alternatives(blank, at, "audit") if blank else ():
                if (chain := (*at[:2], cell.spec.defense)) not in seen:
                    seen.add(chain)
                    yield cell

    def _blank(self, at: Setting, run: int, kind: Kind) -> Spec | None:
        """The Spec of a setting without a defense; None, and left out, where there is none."""
        try:
            spec = self.grid.spec_of(*at, run, kind)
            if at[1] != SCENARIO:
                _ = self.study.setup(spec).clients.population  # refuses a scenario that does not fit the data
            if spec.audit is not None:
                from foltr_audit.auditing.audit import Audit  # slow to import, and not every grid audits

                Audit(self.study.setup(spec), spec.audit)  # refuses what cannot be audited
        except UsageError as error:
            self._leave_out(at[0], kind, error)
            return None
        return spec

    def _alternatives(self, blank: Spec, at: Setting, kind: Kind) -> Iterator[CellPlan]:
        several = [DefenseAlternative(text) for text in self.grid.defenses]
        if not any(one.text == NO_DEFENSE for one in several):
            several.insert(0, DefenseAlternative(NO_DEFENSE))
        for one in several:
            for eps in self.grid.eps if one.uses_epsilon else (None,):
                label = DefenseLabel(one.text, eps, None if eps is None else self._sensitivity((*at, eps)))
                spec = self._defended(blank, kind, label)
                if spec is not None:
                    yield CellPlan(self._with_claim(spec, label), kind, label)

    def _sensitivity(self, point: Point) -> float:
        if self.grid.sensitivity is not None:
            return self.grid.sensitivity
        if point in self.chosen:
            return self.chosen[point]
        learner = make(Learner, point[0])
        who = f"learner {learner.name}: published_sensitivity"
        return one_of(who, learner.published_sensitivity(point[-1]), float)

    def _with_claim(self, spec: Spec, label: DefenseLabel) -> Spec:
        """The audit of the epsilon that a chain is proven for; with a delta where it claims no pure one.

        The claim covers the observers of the promise, and those of the shown lists only where lists reveal
        nothing about clicks.
        """
        if spec.audit is None:
            return spec
        alternative = DefenseAlternative(label.alternative)
        claim: dict[str, object] = dict(alternative.proven(label.eps, self.grid.delta) or {})
        if claim:
            claim["claim_on"] = alternative.promised_views(self.study.setup(spec))
        elif spec.audit.delta is None and math.isinf(self.study.setup(spec).privacy.claim()):
            claim["delta"] = self.grid.delta
        return spec.model_copy(update={"audit": spec.audit.model_copy(update=claim)})

    def _defended(self, blank: Spec, kind: Kind, label: DefenseLabel) -> Spec | None:
        """The Spec with a defense; None, and left out, where the two do not fit."""
        train, scenario = blank.train, blank.population.scenario
        key = (train.learner, blank.data.source, label)
        try:
            if key not in self._chains:
                self._chains[key] = DefenseAlternative(label.alternative).chain(
                    self.study.setup(blank), label.eps or 1.0, label.sensitivity or 1.0, self.grid.delta
                )
            chain = self._chains[key]
            return self.grid.spec_of(
                train.learner, scenario, train.click_model, blank.repetition, kind, chain
            )
        except UsageError as error:
            self._leave_out(train.learner, label.alternative, error)
            return None
