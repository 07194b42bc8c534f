"""The cascade click model: its published settings, and its law by enumeration."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

import numpy as np
import pytest

from foltr_audit.core.click_models import (
    CascadeClickModel,
    InformationalClickModel,
    NavigationalClickModel,
    PerfectClickModel,
)
from foltr_audit.errors import UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools
from tests.fixtures.reference import chi_square_p

Pattern = tuple[bool, ...]
# Wang et al. 2021 and Pham 2022, table 3, typed in again: P(click | grade), P(stop | click, grade).
PUBLISHED = [
    (PerfectClickModel, 4, (0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    (PerfectClickModel, 2, (0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
    (NavigationalClickModel, 4, (0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    (NavigationalClickModel, 2, (0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
    (InformationalClickModel, 4, (0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    (InformationalClickModel, 2, (0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
    (PerfectClickModel, 1, (0.0, 1.0), (0.0, 0.0)),
    (NavigationalClickModel, 1, (0.05, 0.95), (0.2, 0.9)),
    (InformationalClickModel, 1, (0.3, 0.7), (0.1, 0.5)),
]
LISTS = {
    1: ([0, 1, 1], [1, 0, 1]),
    2: ([0, 1, 2], [2, 0, 1], [1, 1, 0]),
    4: ([0, 2, 4], [3, 1, 2], [4, 3, 0]),
}
MODELS = [PerfectClickModel, NavigationalClickModel, InformationalClickModel]


def clicks(
    model: CascadeClickModel, labels: list[int], largest: int, users: int, step: int = 0, seed: int = 1
) -> Bools:
    """What so many users click on the same list."""
    lists = np.tile(np.array(labels), (users, 1))
    return model.click(lists, largest, Streams(seed).clients("clicks", 0, np.arange(users)), step)


def cascade_law(
    labels: list[int], click: tuple[float, ...], stop: tuple[float, ...], *, stops_unclicked: bool = False
) -> dict[Pattern, float]:
    """Probability of every click pattern: from the top, click or not, then go on or stop."""
    law = dict.fromkeys(product((False, True), repeat=len(labels)), 0.0)

    def read(i: int, seen: Pattern, probability: float) -> None:
        if i == len(labels):
            law[seen] += probability
            return
        grade = labels[i]
        for clicked, chance in ((True, click[grade]), (False, 1 - click[grade])):
            leaves = stop[grade] if clicked or stops_unclicked else 0.0
            after = (*seen, clicked)
            law[after + (False,) * (len(labels) - i - 1)] += probability * chance * leaves
            read(i + 1, after, probability * chance * (1 - leaves))

    read(0, (), 1.0)
    return law


def fit(found: Bools, law: dict[Pattern, float]) -> float:
    """How well clicks agree with a law, as a p-value; of a law without chance, whether all are as it says."""
    k = found.shape[1]
    certain = [pattern for pattern in law if law[pattern] == 1]
    if certain:
        return float((found == np.array(certain[0])).all())
    counts = np.bincount(found @ (2 ** np.arange(k)[::-1]), minlength=2**k)
    return chi_square_p(counts, [law[pattern] for pattern in product((False, True), repeat=k)])


@pytest.mark.parametrize(("model", "largest", "click", "stop"), PUBLISHED)
def test_published_settings(
    model: type[CascadeClickModel], largest: int, click: tuple[float, ...], stop: tuple[float, ...]
) -> None:
    assert model.setting(largest) == (click, stop)


@pytest.mark.parametrize("model", MODELS)
def test_the_smallest_scale_that_holds_the_labels_applies(model: type[CascadeClickModel]) -> None:
    assert [len(model.setting(largest)[0]) for largest in range(5)] == [2, 2, 3, 5, 5]


@pytest.mark.parametrize("model", MODELS)
def test_labels_above_every_scale_are_refused(model: type[CascadeClickModel]) -> None:
    expected = f"click model {model.name}: no published setting for labels up to 5; expected labels 0\\.\\.4$"
    with pytest.raises(UsageError, match=expected) as caught:
        clicks(model(), [0, 5], 5, users=2)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("model", "largest", "click", "stop"), PUBLISHED)
def test_clicks_follow_the_cascade(
    model: type[CascadeClickModel], largest: int, click: tuple[float, ...], stop: tuple[float, ...]
) -> None:
    for labels in LISTS[largest]:
        law = cascade_law(labels, click, stop)
        np.testing.assert_allclose(sum(law.values()), 1.0, rtol=1e-12)
        assert fit(clicks(model(), labels, largest, users=20_000), law) > 1e-4


class StopsAtOnce(CascadeClickModel):
    """Never clicks grade 0, always clicks the others, and always stops where it may."""

    name: ClassVar[str] = "stops-at-once"
    click_given_grade: ClassVar[tuple[tuple[float, ...], ...]] = ((0.0, 1.0, 1.0),)
    stop_given_grade: ClassVar[tuple[tuple[float, ...], ...]] = ((1.0, 1.0, 0.0),)


def test_a_user_stops_only_after_a_click() -> None:
    for labels, expected in (
        ([0, 0, 1, 1], [False, False, True, False]),
        ([2, 0, 2, 1], [True, False, True, True]),
        ([0, 0, 0, 0], [False] * 4),
    ):
        assert np.all(clicks(StopsAtOnce(), labels, 2, users=100) == expected)


def test_nothing_is_clicked_at_the_padding() -> None:
    found = clicks(InformationalClickModel(), [0, 2, -1, -1], 2, users=2000)
    assert not found[:, 2:].any()
    assert found[:, :2].any(axis=0).all()
    shorter = cascade_law([0, 2], *InformationalClickModel.setting(2))
    assert fit(found[:, :2], shorter) > 1e-4
    assert clicks(InformationalClickModel(), [-1, -1], 2, users=5).sum() == 0


@pytest.mark.parametrize("model", MODELS)
def test_clicks_depend_on_the_users_own_stream_only(model: type[CascadeClickModel]) -> None:
    rng = np.random.default_rng(0)
    labels, users = rng.integers(0, 5, size=(30, 10)), rng.permutation(100)[:30]
    streams = Streams(1).clients("clicks", 2, users)
    together = model().click(labels, 4, streams, 3)
    for row, user in zip(labels, users, strict=True):
        alone = model().click(row[np.newaxis], 4, Streams(1).clients("clicks", 2, np.array([user])), 3)
        np.testing.assert_array_equal(alone[0], together[users == user][0])
    np.testing.assert_array_equal(model().click(labels, 4, streams, 3), together)


def test_local_steps_draw_anew() -> None:
    labels, users = [0, 1], 20_000
    steps = [clicks(InformationalClickModel(), labels, 2, users, step) for step in range(3)]
    joint = np.concatenate(steps, axis=1)
    one = cascade_law(labels, *InformationalClickModel.setting(2))
    independent = {(*a, *b, *c): one[a] * one[b] * one[c] for a, b, c in product(one, repeat=3)}
    assert fit(joint, independent) > 1e-4
