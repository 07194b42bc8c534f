"""The Spec: an immutable, validated description of one experiment, with one canonical form and a hash.

Command-line options, configuration files and the cells of a comparison all produce Specs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, Unpack, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.base import (
    SpecTable,
    canonical_chain,
    chain_texts,
    refuse_unknown,
    with_default,
)
from foltr_audit.core.settings.data import DataSpec, without_paths
from foltr_audit.core.settings.defaults import NO_DEFENSE, PROTOCOLS, SEEDED
from foltr_audit.core.settings.membership import CLIENTS, MembershipSpec
from foltr_audit.core.settings.population import PopulationSpec
from foltr_audit.core.settings.train import TraceSpec, TrainSpec, default_learner
from foltr_audit.core.settings.unlearning import FEW_CLIENTS, UnlearningSpec
from foltr_audit.errors import UsageError, first_problem
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.reading import toml_table

if TYPE_CHECKING:
    from pydantic.config import JsonDict

    from foltr_audit.core.settings.fields import SpecFields

T = TypeVar("T", bound=SpecTable)


def _described(data: object) -> object:
    """Data as Specs hold them; a collection is described."""
    if isinstance(data, Mapping | DataSpec):
        return data
    if isinstance(data, str):
        raise ValueError(f'expected a table, e.g. {{"source": "{data[:80]}"}}')
    from foltr_audit.core.records import Collection

    return DataSpec.of(data) if isinstance(data, Collection) else data


def _defaults_of(table: type[T]) -> T:
    """A field whose default is a table of defaults, made when it is needed: that of plug-ins imports them."""

    def describe(schema: JsonDict) -> None:
        schema["default"] = table().model_dump(mode="json")

    field: T = Field(default_factory=table, json_schema_extra=describe)
    return field


class Spec(SpecTable):
    """One experiment. Two Specs with the same canonical TOML are the same experiment.

    Attributes:
        repetition: number of this repetition, part of every stream's name.
        defense: chain of defenses: texts such as `clip:norm=1.5`, or objects; kept as texts.
        data: a collection, or fields of `DataSpec`, e.g. `{"source": "synthetic:mq2007:200"}`.
        population: fields of `PopulationSpec`, e.g. `{"clients": 100}`.
        train: fields of `TrainSpec`, e.g. `{"rounds": 5}`.
        trace: fields of `TraceSpec`, e.g. `{"message": "update"}`.
        attack: the attack protocol, fields of `AttackSpec`, e.g. `{"methods": ["olsr"]}`; None for no attack.
            With one, the default learner is PDGD as in Pham 2022 (`pairs=all,normaliser=shown`).
        audit: the audit protocol, fields of `AuditSpec`; None for no audit. It has the same default learner.
        membership: the membership protocol, fields of `MembershipSpec`; None for none. It has the same
            default learner, and 50 clients if none are given.
        unlearning: the unlearning protocol, fields of `UnlearningSpec`; None for none. It has the same
            default learner, and 20 clients if none are given.

    Example:
        >>> Spec(population={"clients": 10}).population.cohort_size
        10
    """

    schema_: Literal["foltr-audit/spec/1"] = Field("foltr-audit/spec/1", alias="schema")
    seed: int = Field(1, ge=0, lt=2**63, description="Seed of all random draws.")
    repetition: int = Field(0, ge=0)
    defense: Annotated[tuple[str, ...], BeforeValidator(chain_texts), AfterValidator(canonical_chain)] = (
        NO_DEFENSE,
    )
    data: Annotated[DataSpec, BeforeValidator(_described)] = _defaults_of(DataSpec)
    population: PopulationSpec = _defaults_of(PopulationSpec)
    train: TrainSpec = _defaults_of(TrainSpec)
    trace: TraceSpec = _defaults_of(TraceSpec)
    attack: AttackSpec | None = None
    audit: AuditSpec | None = None
    membership: MembershipSpec | None = None
    unlearning: UnlearningSpec | None = None

    def __init__(self, /, **table: Unpack[SpecFields]) -> None:
        """Make a Spec from its fields.

        Plug-ins may be given as objects or classes, e.g. `defense=[Clip(norm=1.5)]`, and `data` as a
        collection: the Spec holds what they are called.

        Raises:
            UsageError: an unknown field (with the nearest known one) or an invalid value.
        """
        refuse_unknown(Spec, table)
        try:
            super().__init__(**cast("dict[str, object]", table))
        except ValidationError as error:
            raise UsageError(f"Spec: {first_problem(error)}") from None

    vars()["__init__"].__pydantic_base_init__ = True  # the errors of `parse` name the source of the table

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_protocols(cls, table: object) -> object:
        """With a protocol the default learner is that of Pham 2022; where one client shows, there are few."""
        if not isinstance(table, Mapping):
            return table
        if table.get("membership") is not None:
            table = with_default(table, "population", "clients", CLIENTS)
        if table.get("unlearning") is not None:
            table = with_default(table, "population", "clients", FEW_CLIENTS)
        if any(table.get(name) is not None for name in PROTOCOLS):
            table = with_default(table, "train", "learner", default_learner(attacks=True))
        from foltr_audit.core.settings.spec_fit import with_learner_defaults, with_server_defaults

        return with_learner_defaults(with_server_defaults(table))

    @model_validator(mode="after")
    def _fields_fit(self) -> Spec:
        from foltr_audit.core.settings.spec_fit import why_not

        if problem := why_not(self):
            raise ValueError(problem)
        return self

    @property
    def message_kind(self) -> str:
        """Kind of a message before any encoding: `model`, `update`, `es` or `clicks`."""
        from foltr_audit.core.plugins import Learner
        from foltr_audit.core.plugins.registry import make

        kinds = {"models": self.trace.message, "metrics": "es", "clicks": "clicks"}
        return kinds[make(Learner, self.train.learner).sends]

    @property
    def attacked_kind(self) -> str:
        """The kind of a message for the choice of attacks: `seeded es` if the seed of `es` drives clients."""
        from foltr_audit.core.plugins import Learner
        from foltr_audit.core.plugins.registry import make

        kind = self.message_kind
        return SEEDED if kind == "es" and make(Learner, self.train.learner).reveals_draws else kind

    @property
    def attacks(self) -> tuple[str, ...]:
        """The attacks that run: the named ones, or the defaults; none without an attack protocol."""
        return () if self.attack is None else self.attack.methods_on(self.attacked_kind)

    def with_strong_attacks(self) -> Spec:
        """The same Spec plus the default attacks, so that no verdict depends on weak attacks alone."""
        if self.attack is None:
            return self
        return self.model_copy(update={"attack": self.attack.strengthened(self.attacked_kind)})

    def having(self, changes: Mapping[str, object]) -> Spec:
        """The same Spec with other values of some fields; what was not given still follows from the rest.

        Args:
            changes: new values by dotted name, e.g. `{"attack.methods": "olsr"}`; several values of a field
                may be one text or object.

        Raises:
            UsageError: a refused value.
        """
        table = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for dotted, value in changes.items():
            outer, _, inner = dotted.rpartition(".")
            several = isinstance(value, str) or not isinstance(value, Sequence)
            place = table.setdefault(outer, {}) if outer else table
            place[inner] = [value] if several else value
        return Spec.parse(table, "")

    def table(self) -> dict[str, JsonValue]:
        """The Spec as a plain table with every default spelt out; fields that are None are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def toml(self) -> str:
        """The canonical TOML form."""
        import tomli_w

        return tomli_w.dumps(self.table())

    @classmethod
    def from_toml(cls, text: str, where: str = "spec") -> Spec:
        """The Spec of a TOML text.

        Raises:
            UsageError: the text is not TOML, or not a valid Spec.
        """
        return cls.parse(toml_table(text, where, UsageError), where)

    @property
    def public(self) -> Spec:
        """The same experiment with the names of its data, intents and first model instead of local paths."""
        return Spec.parse(without_paths(self.table()))

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of the canonical TOML form of `public`: the same wherever the data lie."""
        return _hash_of(self)

    @property
    def undefended(self) -> Spec:
        """The same training by an honest server, without defense and protocols: the baseline of utility."""
        train = self.train.model_copy(update={"server": None})
        return self.only_trained.model_copy(update={"defense": (NO_DEFENSE,), "train": train})

    @property
    def only_trained(self) -> Spec:
        """The same training without any protocol after it."""
        return self.model_copy(update=dict.fromkeys(PROTOCOLS))


@lru_cache(maxsize=1024)  # a comparison asks a dozen times for that of every cell
def _hash_of(spec: Spec) -> str:
    return hash_of_table(without_paths(spec.table()))


def hash_of_table(public: Mapping[str, object]) -> str:
    """The hash of the Spec whose table, without local paths, this is: SHA-256 (hex) of its TOML form."""
    import tomli_w

    return hashlib.sha256(tomli_w.dumps(public).encode()).hexdigest()


def flat(table: Mapping[str, object], prefix: str = "") -> dict[str, JsonValue]:
    """A flat table in which the fields of inner tables have dotted names.

    >>> flat({"seed": 1, "data": {"fold": 2}})
    {'seed': 1, 'data.fold': 2}
    """
    fields: dict[str, JsonValue] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            fields |= flat(value, f"{prefix}{name}.")
        else:
            fields[f"{prefix}{name}"] = cast(JsonValue, value)
    return fields


def first_difference(old: Spec, new: Spec) -> str | None:
    """The first field that differs between two Specs, with both values; None if they are equal."""
    there, here = flat(old.table()), flat(new.table())
    for name in {**there, **here}:
        if there.get(name) != here.get(name):
            return f"{name} is {there.get(name)} there and {here.get(name)} here"
    return None
