"""Utility by group of clients, against figures by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from foltr_audit.core.records.population import EVERYBODY
from foltr_audit.experiments.periods import TrainingHistory
from foltr_audit.report.plan_report import served_groups_table, served_rows
from foltr_audit.report.terminal import print_table
from foltr_audit.utils.formatting import json_text
from tests.fixtures.made_reports import on_terminal
from tests.fixtures.result_rows import Plain, plain
from tests.fixtures.run_results import run_setting
from tests.judge.test_group_scores import INTENTS, SETTING, TWO


def rounds(online: dict[str, list[float]], every: list[float], **final: float) -> list[dict[str, float]]:
    """Rows of rounds with the online nDCG@10 of all and of groups; the offline metrics at the end."""
    rows = []
    for i, value in enumerate(every):
        of_groups = {f"online_ndcg@10/{name}": values[i] for name, values in online.items()}
        rows.append({"round": float(i), "online_ndcg@10": value, **of_groups})
    rows[-1] |= final
    return rows


def served(trainings: list[TrainingHistory]) -> list[Plain]:
    """The rows of the groups as plain tables."""
    return plain(served_rows(trainings, run_setting(**SETTING)))


def two_groups(even: list[float], odd: list[float], every: list[float]) -> TrainingHistory:
    return TrainingHistory(TWO, rounds({"even": even, "odd": odd}, every))


def test_online_means_by_hand_worst_served_first() -> None:
    even, odd = [0.25, 0.5, 0.75], [0.125, 0.25, 0.375]
    rows = served([two_groups(even, odd, [0.2, 0.4, 0.6])])
    assert [(row["group"], row["place"]) for row in rows] == [("odd", 1), ("even", 2)]
    worst, best = rows
    assert (worst["online_mean"], best["online_mean"]) == (0.25, 0.5)
    assert worst["online_mean_all"] == best["online_mean_all"] == pytest.approx(0.4)
    assert worst["online_mean_difference"] == pytest.approx(-0.15)
    assert (worst["online_last"], worst["online_last_all"], worst["last_rounds"]) == (0.375, 0.6, 1)
    assert worst["online_mean_ci95"] is worst["online_mean_difference_ci95"] is worst["ndcg@10"] is None
    assert worst["runs"] == 1
    assert {name: worst[name] for name in SETTING} == SETTING


def test_the_last_tenth_of_the_rounds() -> None:
    values = [i / 40 for i in range(40)]
    rows = served([two_groups(values, values, values)])
    assert rows[0]["last_rounds"] == 4
    assert rows[0]["online_last"] == pytest.approx((36 + 37 + 38 + 39) / 160)


def test_several_runs_have_students_interval_and_differences_are_paired() -> None:
    rng = np.random.default_rng(1)
    every = rng.random(5)
    even, odd = every + 0.1 + 0.01 * rng.random(5), every - 0.1 - 0.01 * rng.random(5)
    played = [two_groups([e], [o], [a]) for e, o, a in zip(even, odd, every, strict=True)]
    worst = served(played)[0]
    assert (worst["group"], worst["runs"]) == ("odd", 5)
    for name, values in (("online_mean", odd), ("online_mean_difference", odd - every)):
        half = stats.t.ppf(0.975, 4) * values.std(ddof=1) / np.sqrt(5)
        assert worst[name] == pytest.approx(values.mean(), rel=1e-12)
        assert worst[f"{name}_ci95"] == pytest.approx([values.mean() - half, values.mean() + half], rel=1e-9)
    low, high = worst["online_mean_difference_ci95"]
    assert high - low < 0.05 < worst["online_mean_ci95"][1] - worst["online_mean_ci95"][0]


def test_offline_utility_is_that_of_a_groups_own_intent() -> None:
    online = {name: [0.5, 0.5] for name in INTENTS.groups}
    online["intent 2, no clicks"] = [0.25, float("nan")]
    final = {"offline_ndcg@10": 0.5, "offline_ndcg@10/intent 1": 0.625, "offline_ndcg@10/intent 2": 0.375}
    rows = served([TrainingHistory(INTENTS, rounds(online, [0.5, 0.5], **final))])
    assert rows[0]["group"] == "intent 2, no clicks"
    assert rows[0]["online_mean"] == 0.25, "rounds without the group do not count"
    assert rows[0]["online_last"] is None
    for row in rows:
        assert row["ndcg@10"] == (0.625 if row["group"].startswith("intent 1") else 0.375)
        assert row["ndcg@10_all"] == 0.5
        assert row["ndcg@10_difference"] == row["ndcg@10"] - 0.5


def test_a_group_that_never_played_is_last() -> None:
    rows = served([TrainingHistory(TWO, rounds({"odd": [0.9]}, [0.9]))])
    assert [row["group"] for row in rows] == ["odd", "even"]
    assert rows[1]["online_mean"] is rows[1]["online_mean_all"] is rows[1]["online_mean_difference"] is None
    json.loads(json_text(rows))


def test_identical_clients_have_no_rows() -> None:
    assert served([TrainingHistory(EVERYBODY, rounds({}, [0.5]))]) == []


def test_the_table_of_utility_shows_the_worst_served_below_all_clients() -> None:
    one = two_groups([0.5, 0.5], [0.25, 0.25], [0.375, 0.375])

    def printed(trainings: int) -> str:
        rows = served_rows([one] * trainings, run_setting(**SETTING))
        return on_terminal(print_table, served_groups_table(rows), 80)

    told = printed(1)
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert lines.index("perfect 1.2 all clients .375 .375") < lines.index("odd .250 .250 -.125")
    assert lines.index("odd .250 .250 -.125") < lines.index("even .500 .500 .125")
    assert "offline" not in told
    assert "interval" not in told
    for trainings, shown in ((2, False), (3, True)):
        told = printed(trainings)
        assert ("interval over runs" in told) == shown
        assert ("[.25, .25]" in told) == shown
