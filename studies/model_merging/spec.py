"""The settings of a study of model merging, as a validated table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from foltr_audit.core.plugins.registry import first_problem
from foltr_audit.core.spec.base import SpecTable
from foltr_audit.core.spec.data import DataSpec
from foltr_audit.data.synthetic.topics import CATEGORY_FEATURE, LIKE
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.studies.model_merging.lambdamart import MOST_TREES

_EMBEDDED = f"synthetic:{LIKE}"

Split = Literal[1, 2, 3]


def _distinct(values: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(values)) < len(values):
        raise ValueError(f"{', '.join(map(str, values))}: expected different ones")
    return values


def _sorted(values: tuple[Split, ...]) -> tuple[Split, ...]:
    return tuple(sorted(set(values)))


class MergeData(SpecTable):
    """The data, and the column with the category of a document.

    Attributes:
        source: a path, or `synthetic:istella-s[:QUERIES]`.
        fold: number of the fold, from 1; 0 for data without folds.
        category_feature: the column with the category of a document, from 1 as in LETOR files; None for the
            embedded data.
    """

    source: str = Field(_EMBEDDED, min_length=1)
    fold: int = Field(0, ge=0)
    category_feature: int | None = Field(None, ge=1)

    @property
    def spec(self) -> DataSpec:
        """How to load the data: not normalised, since a category is a name."""
        return DataSpec(source=self.source, fold=self.fold, normalise="none")

    @property
    def feature(self) -> int:
        """The category column, from 1.

        Raises:
            UsageError: it is not given, and the data are not the embedded ones.
        """
        if self.category_feature is not None:
            return self.category_feature
        if self.source == _EMBEDDED or self.source.startswith(f"{_EMBEDDED}:"):
            return CATEGORY_FEATURE
        raise UsageError(
            f"--category-feature: not given; expected the column of {self.source} that holds the category "
            "of a document, from 1"
        )


class MergeSpec(SpecTable):
    """A study of model merging.

    Attributes:
        data: the data.
        categories: the first and the second category; the most frequent query topics of the training part
            replace missing ones.
        splits: the splits to run; 1: exclusive on the first category, 2: without tie-breaking on the first,
            3: without tie-breaking on the second.
        initial: whether to train the models of the initial split too, where ties between topics are broken.
        trials: number of settings of hyper-parameters that are tried for each model.
        trees: maximum number of trees of a model.
        seed: seed of every draw.
    """

    data: MergeData = MergeData()
    categories: Annotated[tuple[int, ...], Field(max_length=2), AfterValidator(_distinct)] = ()
    splits: Annotated[tuple[Split, ...], Field(min_length=1), AfterValidator(_sorted)] = (1, 2, 3)
    initial: bool = False
    trials: int = Field(6, ge=1, le=10_000)
    trees: int = Field(150, ge=1, le=MOST_TREES)
    seed: int = Field(1, ge=0)

    @classmethod
    def parse(
        cls, table: Mapping[str, Any], where: str = "merge", names: Mapping[str, str] | None = None
    ) -> MergeSpec:
        """The spec of a plain table.

        In messages `where` names the source of the table (empty if it is obvious), and `names` the options
        that set its fields.

        Raises:
            UsageError: an unknown field (the message names the nearest known one) or a refused value.
        """
        source = f"{where}: " if where else ""
        _refuse_unknown(table, cls, source)
        if isinstance(table.get("data"), Mapping):
            _refuse_unknown(table["data"], MergeData, f"{source}data.")
        try:
            return cls.model_validate(dict(table))
        except ValidationError as error:
            raise UsageError(source + first_problem(error, names)) from error


def _refuse_unknown(table: Mapping[str, Any], kind: type[SpecTable], source: str) -> None:
    for name in table:
        if name not in kind.model_fields:
            raise UsageError(f"{source}{name}: no such field; {suggest_name(str(name), kind.model_fields)}")
