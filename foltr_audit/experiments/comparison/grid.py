"""The grid of a comparison: what is varied, what stays the same, and the cells that this makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator

from foltr_audit.core.field_errors import first_problem
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.base import Flag, SpecTable, once
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.core.settings.defaults import CLICK_MODELS, DELTA, NO_DEFENSE, SCENARIO
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.local_paths import without_paths
from foltr_audit.core.settings.plain_table import with_default
from foltr_audit.core.settings.plugin_texts import canonical, chain_texts
from foltr_audit.core.settings.population import canonical_scenarios
from foltr_audit.core.settings.server_fit import with_server_defaults
from foltr_audit.core.settings.train import default_learner
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.alternatives import DEFAULT_ALTERNATIVES, DefenseAlternative
from foltr_audit.experiments.plan import Table, apply_changes, table_in
from foltr_audit.utils.reading import toml_table

Kind = Literal["attack", "audit", "select"]

SPEC_SCHEMA = "foltr-audit/spec/1"
_AUDITED = ("individual", "individual+lists", "aggregate")
_DEFENSES = (
    "none, published, published + secure-aggregation, proven-laplace, proven-click-rr, proven-skellam + "
    "secure-aggregation"
)
_AXES = {"train.learner", "population.scenario", "train.click_model", "attack.click_models", "attack.methods"}
_FIXED = {"repetition", "defense", "data.fold"}


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
    ] = Field(
        CLICK_MODELS,
        description="How users click, in training and when attacked.",
    )
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
            _refuse_protocol(name, kind, table.get(name, {}))
        return table

    @classmethod
    def parse(cls, table: Mapping[str, object], where: str = "") -> ComparisonGrid:
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
    def from_toml(cls, text: str, where: str) -> ComparisonGrid:
        """The grid of a TOML text, which may also be a Spec: then the grid of one point.

        Raises:
            UsageError: it is no TOML, or neither a valid grid nor a valid Spec.
        """
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
        protocols: dict[str, object] = {
            "attack": table.pop("attack", {}),
            "audit": table.pop("audit", {}),
        }
        return cls.parse({**axes, **again, "spec": {**table, **protocols}})

    def table(self) -> Table:
        """The grid as a plain table."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def public(self) -> ComparisonGrid:
        """The same grid without local paths."""
        return self.model_copy(update={"spec": without_paths(self.spec)})

    @property
    def toml(self) -> str:
        """The TOML form."""
        import tomli_w

        return tomli_w.dumps(self.table())

    def data(self, fold: int) -> DataSpec:
        """The data of a fold."""
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
        """The Spec of one point of the grid, with a chain of defenses.

        Raises:
            UsageError: values that do not fit each other.
        """
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
        if kind == "attack":
            more: Table = {"methods": [*self.attacks] or None, "click_models": [click_model]}
            table["attack"] = {**table_in(self.spec, "attack"), **more}
        elif kind == "audit":
            table["audit"] = table_in(self.spec, "audit")
        spec = Spec.parse(_with_defaults(table, kind), "")
        return spec if self.attacks else spec.with_strong_attacks()  # the Spec of a cell names its attacks


def _with_defaults(table: Table, kind: Kind) -> Mapping[str, object]:
    """What a server asks for, else the audited views; messages are recorded only where they are attacked."""
    found = with_server_defaults(table)
    if kind == "audit":
        found = with_default(found, "audit", "views", _AUDITED)
    attack, trace = (dict(cast("Table", found.get(name, {}))) for name in ("attack", "trace"))
    trace.pop("every", None)
    recorded = kind == "attack" and attack.get("target") == "training"
    return {**found, "trace": trace if recorded else {**trace, "every": 0}}


def _refuse_protocol(name: str, kind: type[SpecTable], table: object) -> None:
    try:
        kind.model_validate(table)
    except ValidationError as error:
        raise UsageError(f"{name}.{first_problem(error, None)}") from error


def _drop(table: Table, dotted: str) -> object:
    """Remove a field from a Spec's table and return it; None where it is absent."""
    outer, _, inner = dotted.partition(".")
    return table_in(table, outer).pop(inner, None) if inner else table.pop(outer, None)
