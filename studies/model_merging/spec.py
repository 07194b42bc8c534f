"""The settings of a study of model merging, as a validated table."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from foltr_audit.studies.model_merging.categories import CategoryRule
from foltr_audit.studies.model_merging.splits import PAIR
from foltr_audit.studies.model_merging.trainers import MOST_TREES
from pydantic import AfterValidator, Field

from foltr_audit.core.settings.base import Flag, SpecTable
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data.synthetic import CATEGORY_FEATURE, ISTELLA
from foltr_audit.errors import UsageError

_EMBEDDED = f"synthetic:{ISTELLA}"

Split = Literal[1, 2, 3]

MOST_CLIENTS = 9
"""Names of merged models have one digit for each client."""


def _distinct(values: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(values)) < len(values):
        raise ValueError(f"{', '.join(map(str, values))}: expected different ones")
    return values


def _sorted(values: tuple[Split, ...]) -> tuple[Split, ...]:
    return tuple(sorted(set(values)))


def _known_rule(text: str) -> str:
    CategoryRule.parse(text)
    return text


class MergeData(SpecTable):
    """The data, and the column with the category of a document, from 1 as in LETOR files."""

    source: Annotated[str, Flag("data")] = Field(
        _EMBEDDED,
        min_length=1,
        description="Folder or file with LETOR data, or synthetic:istella-s[:QUERIES].",
    )
    fold: Annotated[int, Flag(default=None)] = Field(0, ge=0, description="Number K of a FoldK folder.")
    category_feature: Annotated[int | None, Flag(default=f"that of {_EMBEDDED}")] = Field(
        None, ge=1, description="Feature with the category of a document, from 1."
    )
    topics: Annotated[str, AfterValidator(_known_rule)] = Field(
        "feature",
        description="Categories of documents: feature, or for data without such a one quantiles:K of the "
        "feature, or kmeans:K clusters by all features.",
    )

    @property
    def spec(self) -> DataSpec:
        """How to load the data: not normalised, since a category is a name."""
        return DataSpec(source=self.source, fold=self.fold, normalise="none")

    @property
    def rule(self) -> CategoryRule:
        """How documents get categories; only the embedded data need not name the feature."""
        rule = CategoryRule.parse(self.topics)
        if rule.kind == "kmeans":
            if self.category_feature is not None:
                raise UsageError(f"--category-feature: not with --topics {self.topics}, of all features")
            return rule
        feature = self.category_feature
        if feature is None and (self.source == _EMBEDDED or self.source.startswith(f"{_EMBEDDED}:")):
            feature = CATEGORY_FEATURE
        if feature is None:
            raise UsageError(
                f"--category-feature: not given; expected the column of {self.source} that holds the "
                "category of a document, from 1"
            )
        return replace(rule, feature=feature)


class MergeSpec(SpecTable):
    """A study of model merging.

    Ties between topics are broken in the initial split alone. The most frequent query topics of the training
    part replace a missing first or second category. With more than two there are as many clients: splits 1
    and 2 give each the queries of its own.
    """

    data: MergeData = MergeData()
    categories: Annotated[
        tuple[int, ...],
        Field(max_length=MOST_CLIENTS),
        AfterValidator(_distinct),
        Flag("category", "the most frequent query topics"),
    ] = Field(
        (),
        description="First category, then the second one; with three to "
        f"{MOST_CLIENTS}, each is that of a client.",
    )
    splits: Annotated[
        tuple[Split, ...], Field(min_length=1), AfterValidator(_sorted), Flag("split", "all")
    ] = Field(
        (1, 2, 3),
        description="1: exclusive on the first category; 2: no tie-breaking on the first; 3: no tie-breaking "
        "on the second, left out with more than two.",
    )
    initial: bool = Field(default=False, description="Train the models of the initial split too.")
    trials: int = Field(6, ge=1, le=10_000, description="Number of settings that are tried for each model.")
    trees: int = Field(
        150, ge=1, le=MOST_TREES, description=f"Maximum number of trees of a model, up to {MOST_TREES}."
    )
    seed: int = Field(1, ge=0)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The splits, with 0 for the initial one; the third has a pair of clients only."""
        splits = [split for split in self.splits if split < 3 or len(self.categories) <= PAIR]
        if not splits:
            raise UsageError("--split: 3; expected 1 or 2 with more than two of --category")
        return (*((0,) if self.initial else ()), *splits)
