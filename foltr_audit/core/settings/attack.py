"""The attack protocol of a Spec: which attacks run, and on which messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from foltr_audit.core.settings.base import PARTS, Flag, Parts, Several, SpecTable, canonical, left_out, once
from foltr_audit.core.settings.defaults import (
    CLICK_MODELS,
    MODEL_ATTACKS,
    ONE_LIST_ATTACK,
    OTHER_ATTACKS,
    SEVERAL_LISTS_ATTACK,
    SUM_ATTACK,
)
from foltr_audit.errors import UsageError, suggest_name

if TYPE_CHECKING:
    from foltr_audit.core.records import Collection

_NEAR_IDS = 3  # similar query ids that an error suggests
_MOST_QUOTED = 20  # longest id that an error quotes: by mistake an id may be a line of another file


def known_knowledge(values: tuple[str, ...]) -> tuple[str, ...]:
    """Names of `KNOWLEDGE`, each once, in the order of `KNOWLEDGE`."""
    from foltr_audit.core.records.view import KNOWLEDGE

    for value in values:
        if value not in KNOWLEDGE:
            raise ValueError(f"unknown knowledge {value!r}; {suggest_name(value, KNOWLEDGE)}")
    return tuple(name for name in KNOWLEDGE if name in values)


class AttackSpec(SpecTable):
    """The attack protocol.

    Without methods the defaults run, see `methods_on`; baselines always do. Target `fresh` attacks one new
    client per query, with one message of `interactions`: the first with that query, the others with random
    attacked queries. `min_documents`, `interactions` and `lists` are of that target, and so is view `pooled`.
    """

    methods: Annotated[
        Several[Annotated[str, canonical("attack")]] | None,
        Flag("method", "olsr, lad and map, or those that fit"),
    ] = Field(None, description="Attack, e.g. olsr, or all.")
    click_models: Annotated[Several[Annotated[str, canonical("click model")]], Flag("click-model")] = Field(
        CLICK_MODELS, description="How the attacked users click."
    )
    target: Literal["fresh", "training"] = Field(
        "fresh",
        description="Messages to attack: fresh, of one new client per query, or training, of the rounds.",
    )
    on: Annotated[Parts, Flag("attack-on", form="text")] = Field(
        ("vali", "test"), description="Parts whose queries are attacked."
    )
    repeats: int = Field(
        1, ge=1, le=100_000, description="Draws of clicks and noise for each attacked query."
    )
    min_documents: int = Field(10, ge=1, description="Leave out queries with fewer documents.")
    interactions: Annotated[int, Flag("attack-interactions")] = Field(
        1, ge=1, le=100, description="Interactions in each attacked message."
    )
    view: Literal["individual", "aggregate", "client", "pooled", "cohort"] = Field(
        "individual",
        description="What the server sees. individual: each message; aggregate: sums over --repeats clients "
        "with the same query (of target training: over the cohort of a round); client: the global models "
        "before and after each round, as clients do; pooled: sums over the messages of one client in "
        "--repeats rounds; cohort: sums over as many fresh clients as a cohort has, each with a query of its "
        "own.",
    )
    lists: Annotated[
        Literal["deterministic", "sampled"] | None, left_out("deterministic"), Flag(default="deterministic")
    ] = Field(None, description="How the lists of fresh clients are made: deterministic or sampled.")
    choices: int = Field(
        10,
        ge=2,
        le=1000,
        description="Number of queries that query-id chooses from, and of messages that linkage chooses "
        "from.",
    )
    colluders: Annotated[int | None, left_out(0), Flag(default="0")] = Field(
        None,
        ge=0,
        description="With --target training --view aggregate: clients that tell the server what they sent.",
    )
    hide: Annotated[tuple[str, ...], AfterValidator(known_knowledge)] = Field(
        (),
        description="Knowledge that is withheld from the server, e.g. order,noise. May be repeated. See list "
        "knowledge.",
    )
    queries: Annotated[tuple[str, ...], AfterValidator(once), Flag(form="text")] = Field(
        (), description="Report the attacked lists of these queries one by one: ID,... or a file of ids."
    )

    @model_validator(mode="after")
    def _fields_fit(self) -> AttackSpec:
        if self.view == "client" and self.target != "training":
            raise ValueError("view client: expected target training, whose rounds change the global model")
        if self.sums and self.target == "fresh" and self.interactions > 1:
            raise ValueError(f"view {self.view}: expected one interaction per message of fresh clients")
        if self.view in ("pooled", "cohort") and self.target != "fresh":
            raise ValueError(f"view {self.view}: expected target fresh, whose clients it is about")
        if self.lists == "sampled" and self.target != "fresh":
            raise ValueError(
                "lists sampled: in training rounds the learner makes the lists; expected target fresh"
            )
        if self.colluders and not (self.sums_of_rounds and self.view == "aggregate"):
            raise ValueError(
                f"colluders={self.colluders}: their messages are taken from sums of training rounds; "
                "expected target training and view aggregate"
            )
        return self

    @property
    def sums_of_rounds(self) -> bool:
        """Whether these are the sums of whole rounds, or changes of their global models."""
        return self.sums and (self.target == "training" or self.view == "cohort")

    @property
    def of_one_search(self) -> bool:
        """Whether each message holds one search, whose list was made before its clicks and tells nothing."""
        return self.target == "fresh" and self.interactions == 1

    @property
    def sums(self) -> bool:
        """Whether the observer sees no single messages."""
        return self.view != "individual"

    def methods_on(self, kind: str) -> tuple[str, ...]:
        """The attacks that run on messages of a kind (`model`, `update`, `es`, `seeded es` or `clicks`).

        By default these are the published attacks and the strongest that fits: `map` for one list,
        `joint-map` for several and for sums of rounds, `aggregate` for other sums. `joint-map` takes about a
        second per message, so on training rounds it runs only if it is named. Where these cannot read what
        fresh clients send, `stand_ins` of `judge/protocol.py` adds `learned`.
        """
        return self.methods or self.defaults_on(kind)

    def defaults_on(self, kind: str) -> tuple[str, ...]:
        """The default attacks on messages of a kind."""
        from foltr_audit.core.plugins import Attack
        from foltr_audit.core.plugins.registry import make

        several = self.sums_of_rounds or (self.target == "fresh" and self.interactions > 1)
        if self.sums and not self.sums_of_rounds:
            return (make(Attack, SUM_ATTACK).text,)
        names = OTHER_ATTACKS.get(kind) or (
            *MODEL_ATTACKS,
            SEVERAL_LISTS_ATTACK if several else ONE_LIST_ATTACK,
        )
        return tuple(make(Attack, name).text for name in names)

    def strengthened(self, kind: str) -> AttackSpec:
        """The same protocol plus the default attacks, so that no verdict depends on weak attacks alone."""
        return changed_protocol(self, {"methods": (*(self.methods or ()), *self.defaults_on(kind))})


def changed_protocol(protocol: AttackSpec, changes: Mapping[str, object]) -> AttackSpec:
    """The attack protocol with some fields changed; a `UsageError` for an invalid value."""
    return AttackSpec.parse({**protocol.model_dump(), **changes}, "")


def refuse_unknown_queries(names: Sequence[str], collection: Collection | None) -> None:
    """Refuse names of queries that are not in a collection; without one, names other than `PART:INDEX`."""
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
