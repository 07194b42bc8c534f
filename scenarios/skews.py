"""Clients that differ: non-IID federated online learning to rank.

Source: Wang & Zuccon 2022, "Is non-IID data a threat in federated online learning to rank?", for the four
types.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from foltr_audit.plugins import Population, Scenario, ScenarioContext, Trait, TraitValue
from foltr_audit.utils.reading.text import whole_number


class ClientSkew(Scenario):
    """One trait by which clients differ."""

    strength: float = Field(
        1.0,
        ge=0,
        le=1,
        description="probability that an interaction is of the client's kind; else of a random kind",
    )

    def values(self, context: ScenarioContext) -> tuple[TraitValue, ...]:
        raise NotImplementedError

    def population(self, before: Population, context: ScenarioContext) -> Population:
        """The clients, each with one of these kinds as another trait."""
        trait = Trait(name=self.name, values=self.values(context), strength=self.strength)
        return before.with_trait(trait)

    def twins(self, context: ScenarioContext) -> dict[str, str]:
        """The same interactions, spread evenly over the clients."""
        return {"evenly dealt": self.model_copy(update={"strength": 0.0}).text} if self.strength else {}


class IntentSkew(ClientSkew):
    """Type 1: groups of clients search the same queries, each group with its own intent."""

    name: ClassVar[str] = "intent-skew"

    def values(self, context: ScenarioContext) -> tuple[TraitValue, ...]:
        """One kind of clients for each intent.

        Raises:
            UsageError: data with one intent only.
        """
        context.several_intents(self.name)
        return tuple(TraitValue(name=f"intent {i + 1}", intent=i) for i in range(context.intents))


class LabelSkew(ClientSkew):
    """Type 2: a client holds documents of one or two grades only, and ranks only those.

    With `overlap`, two grades are any pair; without it they are neighbours, (0, 1), (2, 3) and so on, and a
    last grade without a neighbour is a set of one.
    """

    name: ClassVar[str] = "label-skew"

    grades: Literal[1, 2] = Field(1, description="number of grades among a client's documents")
    overlap: bool = Field(False, description="with two grades: the sets of different clients may overlap")

    @field_validator("grades", mode="before")
    @classmethod
    def _whole(cls, value: object) -> object:
        number = whole_number(value, 0, 9) if isinstance(value, str) else None
        return value if number is None else number

    def values(self, context: ScenarioContext) -> tuple[TraitValue, ...]:
        """One kind of clients for each set of grades."""
        every = range(context.largest_label + 1)
        sets: list[tuple[int, ...]] = [(grade,) for grade in every]
        if self.grades == 2 and self.overlap:
            sets = list(combinations(every, 2))
        elif self.grades == 2:
            sets = [tuple(every[first : first + 2]) for first in every[::2]]
        return tuple(TraitValue(name=f"grade {' and '.join(map(str, each))}", grades=each) for each in sets)


class ClickSkew(ClientSkew):
    """Type 3: each client has its own click model."""

    name: ClassVar[str] = "click-skew"

    models: str = Field(
        "perfect/navigational/informational", description="click models of the kinds of clients"
    )

    @property
    def click_models(self) -> tuple[str, ...]:
        return tuple(self.models.split("/"))

    def values(self, context: ScenarioContext) -> tuple[TraitValue, ...]:
        names = distinct_names([f"{model} clicks" for model in self.click_models])
        pairs = zip(names, self.click_models, strict=True)
        return tuple(TraitValue(name=name, click_model=model) for name, model in pairs)


class QuantitySkew(Scenario):
    """Type 4: clients have different numbers of interactions in a round, and weights to match.

    The numbers are listed in `batches`, or follow Zipf's law: kind j of `levels` has a number proportional
    to `j^-zipf`, at least 1, and their mean is the learner's number of interactions.
    """

    name: ClassVar[str] = "quantity-skew"

    batches: str = Field("1/3/5/7/9", description="interactions in a round of each kind of clients")
    zipf: float = Field(0.0, ge=0, le=10, description="exponent of Zipf's law; 0: as listed in batches")
    levels: int = Field(5, ge=1, le=100, description="kinds of clients under Zipf's law")
    even: bool = Field(False, description="every client has the mean of these numbers")

    @field_validator("batches")
    @classmethod
    def _numbers(cls, text: str) -> str:
        sizes = [whole_number(size, 1, 10_000) for size in text.split("/")]
        if None in sizes:
            raise ValueError("expected whole numbers from 1 to 10000 with / between them")
        return "/".join(map(str, sizes))

    def sizes(self, interactions: int) -> list[int]:
        """Interactions of each kind, from the learner's number of interactions."""
        sizes = [int(size) for size in self.batches.split("/")]
        if self.zipf:
            shares = [(j + 1) ** -self.zipf for j in range(self.levels)]
            mean = sum(shares) / self.levels
            sizes = [max(1, round(interactions * share / mean)) for share in shares]
        if self.even:
            # The remainder goes to the first kinds, so that the total stays the same.
            least, more = divmod(sum(sizes), len(sizes))
            sizes = [least + (j < more) for j in range(len(sizes))]
        return sizes

    def population(self, before: Population, context: ScenarioContext) -> Population:
        """The clients, each with a number of interactions."""
        sizes = self.sizes(context.interactions)
        names = distinct_names([f"{size} interaction{'s' * (size > 1)}" for size in sizes], always=self.even)
        values = (TraitValue(name=name, interactions=size) for name, size in zip(names, sizes, strict=True))
        return before.with_trait(Trait(name=self.name, values=tuple(values)))

    def twins(self, context: ScenarioContext) -> dict[str, str]:
        """The same total number of interactions, spread evenly over the clients."""
        return {} if self.even else {"evenly dealt": self.model_copy(update={"even": True}).text}


def distinct_names(names: Sequence[str], *, always: bool = False) -> list[str]:
    """Names of kinds, numbered if two are equal, or `always`."""
    if len(set(names)) == len(names) and not always:
        return list(names)
    return [f"kind {j}: {name}" for j, name in enumerate(names, start=1)]
