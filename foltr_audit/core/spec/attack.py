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
_NEAR_IDS = 3  # similar query ids that an error suggests
_MOST_QUOTED = 20  # longest id that an error quotes: by mistake an id may be a line of another file

_OTHER_ATTACKS = {"es": ("es-first-click",), "clicks": ("seen-clicks",)}
"""Default attacks on messages that are not models, by their kind."""

STRONGEST = frozenset({_ONE_LIST, _SEVERAL_LISTS, _SUMS, *(name for (name,) in _OTHER_ATTACKS.values())})
"""Names of the strongest attacks, each for its kind of messages."""


def known_knowledge(values: tuple[str, ...]) -> tuple[str, ...]:
    """Names of `KNOWLEDGE`, each once, in the order of `KNOWLEDGE`.

    Raises:
        ValueError: an unknown name.
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
        min_documents: queries with fewer documents are left out (target `fresh`).
        interactions: interactions in each attacked message (target `fresh`): one with the client's query,
            then others with random attacked queries.
        view: `individual`, a server that sees each message; `aggregate`, a server that sees only the sum
            over the `repeats` clients of each query; `pooled`, a server that adds the messages that one
            client sends for the same query in `repeats` rounds (both: target `fresh`, one interaction).
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
            raise ValueError(f"view {self.view}: expected target fresh with one interaction per message")
        if self.lists == "sampled" and self.target != "fresh":
            raise ValueError(
                "lists sampled: in training rounds the learner makes the lists; expected target fresh"
            )
        return self

    @property
    def sums(self) -> bool:
        """Whether the observer sees sums of messages."""
        return self.view != "individual"

    def methods_on(self, kind: str) -> tuple[str, ...]:
        """The attacks that run on messages of a kind (`model`, `update`, `es` or `clicks`).

        By default these are the published attacks and the strongest that fits: `map` for one list,
        `joint-map` for several, `aggregate` for sums. `joint-map` takes about a second per message, so on
        training rounds it runs only if it is named.
        """
        return self.methods or self.defaults_on(kind)

    def defaults_on(self, kind: str) -> tuple[str, ...]:
        """The default attacks on messages of a kind."""
        several = self.target == "fresh" and self.interactions > 1
        names = _OTHER_ATTACKS.get(kind) or (*_LEAST_SQUARES, _SEVERAL_LISTS if several else _ONE_LIST)
        return tuple(make(Attack, name).text for name in ((_SUMS,) if self.sums else names))

    def strengthened(self, kind: str) -> AttackSpec:
        """The same protocol plus the default attacks, so that no verdict depends on weak attacks alone."""
        return changed_protocol(self, {"methods": (*(self.methods or ()), *self.defaults_on(kind))})


def changed_protocol(protocol: AttackSpec, changes: Mapping[str, Any]) -> AttackSpec:
    """The attack protocol with some fields changed.

    Raises:
        UsageError: an invalid value.
    """
    try:
        return AttackSpec.model_validate({**protocol.model_dump(), **changes})
    except ValidationError as error:
        raise UsageError(first_problem(error, None)) from error


def refuse_unknown_queries(names: Sequence[str], collection: Collection | None) -> None:
    """Refuse names of queries that are not in a collection; without one, names other than `PART:INDEX`.

    Raises:
        UsageError: an unknown name; the message gives the nearest ids.
    """
    if collection is None:
        for name in names:
            part, _, index = name.partition(":")
            if part not in PARTS or not index.isdecimal():
                expected = "without the data set expected PART:INDEX, e.g. test:0"
                raise UsageError(f"--queries: {_quoted(name)}; {expected}")
    elif names:
        known = {
            collection.query_name(part, query): None  # a dict, as an ordered set
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
