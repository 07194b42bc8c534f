"""Categories of documents from a feature, its quantiles, or k-means; and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from foltr_audit.studies.model_merging.categories import CategoryRule
from numpy.typing import NDArray

from foltr_audit.core.records import Collection
from foltr_audit.errors import DataError, UsageError
from foltr_audit.rng import Streams
from tests.fixtures.reference import dataset
from tests.fixtures.tiny import collection_of


def collection(train: object, other: object = ((1.0, 1.0),)) -> Collection:
    """Rows of features in one query a part."""
    parts = [
        dataset(np.array(rows, dtype=np.float64), np.ones(len(rows)), [len(rows)])  # type: ignore[arg-type]
        for rows in (train, other, other)
    ]
    return collection_of(*parts)


def of(
    rule: str, data: Collection, feature: int | None = None, seed: int = 1
) -> dict[str, NDArray[np.int64]]:
    parsed = CategoryRule.parse(rule)
    chosen = CategoryRule(kind=parsed.kind, number=parsed.number, feature=feature)
    return chosen.columns(data, Streams(seed))


@pytest.mark.parametrize("text", ["kmean:4", "kmeans", "kmeans:1", "quantiles:1001", "quantiles:x", "", "4"])
def test_texts_that_are_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match="expected feature, quantiles:K or kmeans:K"):
        CategoryRule.parse(text)


@pytest.mark.parametrize(
    ("rule", "feature", "rows", "message"),
    [
        *((rule, n, [(5, 1)], f"--category-feature: {n}; expected 1 to 2, the features of tiny")
          for rule in ("feature", "quantiles:2") for n in (0, 3, -1)),
        ("feature", 2, [(1, 5), (1, 0.5)], r"tiny: feature 2 of .* query q0 is 0\.5; expected a whole"),
        ("feature", 2, [(0, n) for n in range(1200)], "tiny: feature 2 has 1200 distinct .* 1000$"),
        ("quantiles:4", 1, [(0, 0)] * 30 + [(1, 0), (2, 0)], "tiny: feature 1 has too many equal values"),
        ("quantiles:2", 1, [(1, 0)] + [(2, 0)] * 3, ".* for 2 quantiles"),  # a border, but nothing above it
        ("kmeans:3", None, [(0, 7), (1, 7)] * 2, "tiny: fewer than 3 different documents"),
    ],
)  # fmt: skip
def test_no_categories(rule: str, feature: int | None, rows: list[tuple[float, float]], message: str) -> None:
    with pytest.raises((DataError, UsageError), match=f"^{message}"):
        of(rule, collection(rows), feature)
    if rule == "kmeans:3":
        assert of("kmeans:2", collection(rows))["train"].tolist() == [1, 2, 1, 2], "a constant feature"


def test_quantiles_by_sorting() -> None:
    values = np.random.default_rng(1).permutation(np.linspace(-3, 5, 60)).astype(np.float32)
    data = collection([(value, 0) for value in values], [(-9, 0), (9, 0), (values[7], 0)])
    found = of("quantiles:4", data, 1)
    expected = 1 + np.argsort(np.argsort(values)) // 15
    assert found["train"].tolist() == expected.tolist()
    # Other parts go by the borders of the training part, which the lower category has.
    assert found["vali"].tolist() == [1, 4, expected[7]]


def test_clusters_are_the_best_of_all_partitions() -> None:
    rng = np.random.default_rng(3)
    rows = np.round(np.concatenate([rng.normal(centre, 1.2, (4, 2)) for centre in (-3, 3)]), 3)
    rows[:, 1] *= 100  # so that only standardised features are near
    found = of("kmeans:2", collection(rows))["train"]
    spread = (rows - rows.mean(axis=0)) / rows.std(axis=0)

    def scatter(clusters: NDArray[np.int64]) -> float:
        return sum(
            float(((mine - mine.mean(axis=0)) ** 2).sum())
            for mine in (spread[clusters == number] for number in (0, 1))
            if len(mine)
        )

    best = min(scatter(np.array(each)) for each in product((0, 1), repeat=len(rows)))
    assert scatter(found - 1) == pytest.approx(best)


def test_clusters_do_not_depend_on_the_scale_and_are_numbered_as_documents_have_them() -> None:
    rng = np.random.default_rng(5)
    place = rng.permutation(np.repeat([0, 1, 2], 20))
    rows = np.array([(0, 0), (20, 0), (0, 20)])[place] + rng.normal(size=(60, 2))
    others = rng.uniform(-5, 25, (200, 2))
    found = of("kmeans:3", collection(rows, others))
    seen = list(dict.fromkeys(place.tolist()))
    assert found["train"].tolist() == [1 + seen.index(one) for one in place]
    centres = np.array([rows[place == one].mean(axis=0) for one in seen])
    distances = np.linalg.norm((others[:, None] - centres) / rows.std(axis=0), axis=2)
    assert found["test"].tolist() == (1 + distances.argmin(axis=1)).tolist()
    for seed, scale in ((2, 1), (3, 1000)):  # also from other starts
        again = of("kmeans:3", collection(rows * (1, scale)), seed=seed)
        assert again["train"].tolist() == found["train"].tolist()
