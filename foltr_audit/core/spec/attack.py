"""The attack protocol of a Spec: which attacks run, and on which messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from foltr_audit.core.plugins import Attack, ClickModel
from foltr_audit.core.plugins.registry import canonical, first_problem, make
from foltr_audit.core.records import Collection
from foltr_audit.core.records.view import KNOWLEDGE
from foltr_audit.core.spec.base import PARTS, SpecTable, known_parts, not_deterministic, once
from foltr_audit.errors import UsageError, suggest_name

_LEAST_SQUARES = ("olsr", "lad")
_ONE_LIST, _SEVERAL_LISTS, _SUMS = "map", "joint-map", "aggregate"
_NEAR_IDS = 3  # query ids that an error offers
_MOST_QUOTED = 20  # characters of an id that an error quotes: the id may be a line of some other file

_OTHER_ATTACKS = {"es": ("es-first-click",), "clicks": ("seen-clicks",)}
"""Attacks where none is named, by the kind of messages that are no models."""

STRONGEST = frozenset({_ONE_LIST, _SEVERAL_LISTS, _SUMS, *(name for (name,) in _OTHER_ATTACKS.values())})
"""Names of the attacks that are the strongest on some kind of messages."""


def known_knowledge(values: tuple[str, ...]) -> tuple[str, ...]:
    """Names of `KNOWLEDGE`, each once, in its order.

    Raises:
        ValueError: a name that is none of them.
    """
    for value in values:
        if value not in KNOWLEDGE:
            raise ValueError(f"unknown knowledge {value!r}; {suggest_name(value, KNOWLEDGE)}")
    return tuple(name for name in KNOWLEDGE if name in values)


class AttackSpec(SpecTable):
    """The attack protocol.

    Attributes:
        methods: texts of attack plug-ins; None for the defaults, see `methods_on`. Baselines always run.
        click_models: how the attacked clients click (target `fresh`).
        target: `fresh` attacks one new client per query of the parts in `on`; `training` attacks the
            messages of the training rounds.
        on: parts whose queries are attacked.
        repeats: how often clicks and noise are drawn for each query.
        min_documents: shorter queries are left out (target `fresh`).
        interactions: interactions behind each attacked message (target `fresh`): a client's own query,
            then others of the attacked ones at random.
        view: `individual`, a server that sees each message; `aggregate`, one that sees, for each query, the
            sum over its `repeats` clients only; `pooled`, one that adds up the messages that the same client
            sends for the same query in `repeats` rounds (both: target `fresh`, one interaction).
        lists: how the lists of fresh clients are made: `deterministic` (None) or `sampled`, as in training.
        choices: number of candidate queries for `query-id`, and of candidate messages for `linkage`.
        hide: knowledge withheld from the observer, names of `records.view.KNOWLEDGE`.
        queries: names of queries whose attacked lists are reported individually.
    """

    methods: (
        Annotated[tuple[Annotated[str, canonical(Attack)], ...], Field(min_length=1), AfterValidator(once)]
        | None
    ) = None
    click_models: Annotated[
        tuple[Annotated[str, canonical(ClickModel)], ...], Field(min_length=1), AfterValidator(once)
    ] = ("perfect", "navigational", "informational")
    target: Literal["fresh", "training"] = "fresh"
    on: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(known_parts)] = ("vali", "test")
    repeats: int = Field(1, ge=1, le=100_000)
    min_documents: int = Field(10, ge=1)
    interactions: int = Field(1, ge=1, le=100)
    view: Literal["individual", "aggregate", "pooled"] = "individual"
    lists: Annotated[Literal["deterministic", "sampled"] | None, AfterValidator(not_deterministic)] = None
    choices: int = Field(10, ge=2, le=1000)
    hide: Annotated[tuple[str, ...], AfterValidator(known_knowledge)] = ()
    queries: Annotated[tuple[str, ...], AfterValidator(once)] = ()

    @model_validator(mode="after")
    def _sums_are_of_fresh_clients(self) -> AttackSpec:
        if self.sums and (self.target != "fresh" or self.interactions > 1):
            raise ValueError(f"view {self.view}: expected target fresh with one interaction a message")
        if self.lists == "sampled" and self.target != "fresh":
            raise ValueError(
                "lists sampled: in training rounds the learner makes the lists; expected target fresh"
            )
        return self

    @property
    def sums(self) -> bool:
        """Whether the view is of sums of messages."""
        return self.view != "individual"

    def methods_on(self, kind: str) -> tuple[str, ...]:
        """The attacks that run on messages of a kind (`model`, `update`, `es` or `clicks`).

        If none is named, these are the published ones and the strongest that fits: `map` for one list,
        `joint-map` for several, `aggregate` for sums. `joint-map` takes about a second for each message, so
        it must be named to run on training rounds.
        """
        return self.methods or self.defaults_on(kind)

    def defaults_on(self, kind: str) -> tuple[str, ...]:
        """The attacks that would run on messages of a kind if none were named."""
        several = self.target == "fresh" and self.interactions > 1
        names = _OTHER_ATTACKS.get(kind) or (*_LEAST_SQUARES, _SEVERAL_LISTS if several else _ONE_LIST)
        return tuple(make(Attack, name).text for name in ((_SUMS,) if self.sums else names))

    def strengthened(self, kind: str) -> AttackSpec:
        """The same protocol with the default attacks added, so that no verdict rests on weak ones."""
        return changed_protocol(self, {"methods": (*(self.methods or ()), *self.defaults_on(kind))})


def changed_protocol(protocol: AttackSpec, changes: Mapping[str, Any]) -> AttackSpec:
    """An attack protocol with other values of some fields.

    Raises:
        UsageError: a refused value.
    """
    try:
        return AttackSpec.model_validate({**protocol.model_dump(), **changes})
    except ValidationError as error:
        raise UsageError(first_problem(error, None)) from error


def refuse_unknown_queries(names: Sequence[str], collection: Collection | None) -> None:
    """Refuse names of queries that a collection does not have; without a collection all but `PART:INDEX`.

    Raises:
        UsageError: the first unknown name, with the nearest ids.
    """
    if collection is None:
        for name in names:
            part, _, index = name.partition(":")
            if part not in PARTS or not index.isdecimal():
                expected = "without the data set expected PART:INDEX, e.g. test:0"
                raise UsageError(f"--queries: {_quoted(name)}; {expected}")
    elif names:
        known = {
            collection.query_name(part, query): None  # a dict is a set that keeps the order
            for part in PARTS
            for query in range(collection.part(part).n_queries)
        }
        for name in names:
            if name not in known:
                near = " or ".join(map(repr, get_close_matches(name, known, n=_NEAR_IDS, cutoff=0.5)))
                hint = f"did you mean {near}?" if near else f"expected one like {next(iter(known))!r}"
                raise UsageError(f"--queries: {_quoted(name)} is no query of {collection.source}; {hint}")


def _quoted(name: str) -> str:
    return repr(name) if len(name) <= _MOST_QUOTED else f"a line of {len(name)} characters"
