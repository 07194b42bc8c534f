"""Rows of a study of model merging, with the figures of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class MixtureRow(ResultRow):
    """How mixed the queries of a part are, as shares of the queries with relevant documents.

    Attributes:
        part, queries: the part, and how many such queries it has.
        exclusive: all relevant documents have one category.
        tie: the largest categories tie.
        lead_1_to_3, lead_over_3: the largest category leads the next one by 1 to 3 documents, or by more.
    """

    part: str
    queries: int
    exclusive: float
    tie: float
    lead_1_to_3: float
    lead_over_3: float


@dataclass(frozen=True, kw_only=True)
class SplitSizes(ResultRow):
    """Sizes of a group of queries, as in table 2 of the paper.

    Attributes:
        part, category, method: where they are from; None for all of a part.
        group: `DS`, `DS_1`, `DS'_2`, `remaining` or `irrelevant`.
        queries, relevant_documents, pairs: how many there are.
    """

    part: str
    category: int | None
    method: str | None
    group: str
    queries: int
    relevant_documents: int
    pairs: int


@dataclass(frozen=True, kw_only=True)
class CategoryRow(ResultRow):
    """Relevant documents and queries of a category in the training part, as in figure 2."""

    category: int
    relevant_documents: int
    queries: int


@dataclass(frozen=True, kw_only=True)
class LocalRow(ResultRow):
    """NDCG@10 of a local or full model on the test queries of a group, as in tables 1 and 3.

    Attributes:
        split, method, category: the split, 0 for the initial one.
        model, on: the model, and the group.
        queries: of the group.
        ndcg: nDCG@10; NaN without queries.
        published: the paper's.
    """

    split: int
    method: str
    category: int
    model: str
    on: str
    queries: int
    ndcg: float = column("ndcg@10")
    published: float


@dataclass(frozen=True, kw_only=True)
class MergedRow(ResultRow):
    """A metric of a local or merged model on the whole test part, as in tables 4 and 5.

    Attributes:
        split, model, method, metric: whose it is; `method` is `local`, `linear` or `stacking`.
        value, published: the mean over queries, and the paper's.
        p_a, p_b: corrected p-values of the difference from M_1 and M_2; None of a local model.
        marks: the letters of the local models from which it differs.
    """

    split: int
    model: str
    method: str
    metric: str
    value: float
    p_a: float | None
    p_b: float | None
    marks: str
    published: float


@dataclass(frozen=True, kw_only=True)
class WeightRow(ResultRow):
    """The weight of M_2 that a client selected, on its queries of D_merge.

    Attributes:
        split, client, queries: whose it is.
        alpha, published_alpha: the weight, and the paper's.
        ndcg: nDCG@10 with it.
    """

    split: int
    client: int
    queries: int
    alpha: float
    ndcg: float = column("ndcg@10_merge")
    published_alpha: float


@dataclass(frozen=True, kw_only=True)
class VerdictRow(ResultRow):
    """How many merged models of a method beat the better local model of their split.

    Attributes:
        method, metric: of the models.
        models, better, significant: how many there are, are better, and by a significant test.
        of_splits, splits, both: splits; those in which the model of a client or both is better, or both are.
    """

    method: str
    metric: str
    models: int
    better: int
    significant: int
    of_splits: int
    splits: int
    both: int


@dataclass(frozen=True, kw_only=True)
class ParameterRow(ResultRow):
    """Selected hyper-parameters of a model, as in table 6.

    Attributes:
        split, model: the model; the split is None for the full one.
        parameters: the hyper-parameters by name.
        trees: number of trees.
        ndcg: nDCG@10 on the queries that selected them.
    """

    split: int | None
    model: str
    parameters: Mapping[str, float] = column(embedded=True)
    trees: int
    ndcg: float = column("ndcg@10_validation")


@dataclass(frozen=True, kw_only=True)
class ImportanceRow(ResultRow):
    """The importance of a feature (from 1) of a stacked model: its share of the gain, and its splits."""

    split: int
    model: str
    feature: int
    gain_share: float
    splits: int
