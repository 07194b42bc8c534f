"""`foltr-audit study significance` on made-up Runs with known answers, and on small real ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_rel

from tests.fixtures.command import answer, refusal, run
from tests.fixtures.stored_runs import rounds_of, table_of, write_plan, write_run, write_system

A = np.array([0.50, 0.52, 0.47, 0.55, 0.51])
B = np.array([0.48, 0.49, 0.46, 0.51, 0.50])
C = np.array([0.40, 0.44, 0.39, 0.45, 0.38])
NAMES = ("perfect", "navigational", "informational")


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Three systems of five repetitions each."""
    for name, values in zip(NAMES, (A, B, C), strict=True):
        write_system(tmp_path / name, list(values), train={"click_model": name})
    return [tmp_path / name for name in NAMES]


def test_every_pair_of_systems_by_hand(folders: list[Path]) -> None:
    done = run("study significance", *folders, "--metric", "final", "--json")
    assert (done.code, done.err) == (0, "")
    found = done.json()
    assert [row["system"] for row in found["systems"]] == [f"train.click_model={name}" for name in NAMES]
    assert [row["mean"] for row in found["means"]] == pytest.approx([A.mean(), B.mean(), C.mean()], rel=1e-12)
    assert found["means"][2]["sd"] == pytest.approx(C.std(ddof=1), rel=1e-12)
    pairs = [(0, 1, A - B), (0, 2, A - C), (1, 2, B - C)]
    for row, (i, j, d) in zip(found["comparisons"], pairs, strict=True):
        assert (row["a"], row["b"]) == tuple(f"train.click_model={NAMES[k]}" for k in (i, j))
        t = d.mean() / (d.std(ddof=1) / math.sqrt(5))
        p = 2 * student.sf(abs(t), 4)
        assert row["metric"] == "offline_ndcg@10"
        assert (row["pairs"], row["comparisons"]) == (5, 3)
        assert row["t"] == pytest.approx(t, rel=1e-9)
        assert row["p"] == pytest.approx(p, rel=1e-9)
        assert row["p_bonferroni"] == pytest.approx(min(1.0, 3 * p), rel=1e-9)
        assert row["effect_size"] == pytest.approx(d.mean() / d.std(ddof=1), rel=1e-9)
        assert row["stars"] == ("**" if 3 * p < 0.01 else "*" if 3 * p < 0.05 else "")
    first = found["comparisons"][0]
    assert first["p"] < 0.05 < first["p_bonferroni"], "without a correction there would be a star"
    assert found["comparisons"][1]["stars"] == "**"


def test_the_correction_counts_the_comparisons_of_one_metric(folders: list[Path]) -> None:
    one, two, every = (
        answer(f"study significance {metrics}", *folders)["comparisons"]
        for metrics in ("--metric final", "--metric maxrr --metric final", "")
    )
    assert two[3:] == every[:3] == one


def test_equal_and_constantly_different_systems_are_told_without_a_warning(tmp_path: Path) -> None:
    for name, shift in zip(NAMES, (0.0, 0.125, 0.0), strict=True):
        write_system(tmp_path / name, list(A + shift), train={"click_model": name})
    folders = [tmp_path / name for name in NAMES]
    rows = answer("study significance --metric final", *folders)["comparisons"]
    found = [(row["p_bonferroni"], row["effect_size"], row["stars"]) for row in rows]
    assert found == [(0.0, "-inf", "**"), (1.0, None, ""), (0.0, "inf", "**")]
    shown = run("study significance", *folders, "--metric", "final")
    assert (shown.code, shown.err) == (0, "")
    assert "1 - 2: the same difference in every pair" in shown.out
    assert "1 - 3: the same" not in shown.out


def test_refusals_are_one_line_with_exit_code_2(tmp_path: Path, folders: list[Path]) -> None:
    perfect, other = folders[:2]
    write_system(tmp_path / "fewer", list(A[:3]), first=1, train={"click_model": "informational"})
    write_run(tmp_path / "open", rounds_of(0.5, [0.1, 0.2]), finished=False)

    def told(*arguments: object) -> str:
        return refusal("study significance", *arguments)

    assert "given twice" in told(perfect, perfect)
    assert "--resume" in told(perfect, tmp_path / "open")
    found = answer("study significance --paired-only", perfect, tmp_path / "fewer")
    assert {row["pairs"] for row in found["comparisons"]} == {3}
    (other / "plan.toml").write_text("seed = ")
    assert "plan.toml" in refusal("study significance", perfect, other, code=3)


def test_real_runs_of_two_epsilons_in_one_folder_against_another(tmp_path: Path) -> None:
    asked = "train --data synthetic:mq2007:60 --clients 20 --rounds 3 --runs 4"
    both = answer(f"{asked} --eps 1.2 --eps inf --out", tmp_path / "both")
    other = answer(f"{asked} --click-model informational --out", tmp_path / "other")
    done = run("study significance", tmp_path / "both", tmp_path / "other", "--json")
    assert (done.code, done.err) == (0, "")
    found = done.json()
    assert [row["runs"] for row in found["systems"]] == [4, 4, 4]
    means = [row["mean"] for row in found["means"]]
    utility = [*both["utility"], *other["utility"]]
    assert means[:3] == pytest.approx([row["ndcg@10"] for row in utility], rel=1e-12)
    assert means[3:] == pytest.approx([row["online_sum"] for row in utility], rel=1e-12)
    for row in found["comparisons"]:
        assert row["difference_ci95"][0] <= row["difference"] <= row["difference_ci95"][1]
        assert row["p_bonferroni"] == pytest.approx(min(1.0, 3 * row["p"]), rel=1e-12)


def test_how_much_was_recorded_makes_no_other_system(tmp_path: Path) -> None:
    for name, every, learner in (("a", 1, "pdgd"), ("b", 0, "fpdgd")):
        write_system(tmp_path / name, [0.5, 0.6], train={"learner": learner}, trace={"every": every})
    found = answer("study significance", tmp_path / "a", tmp_path / "b")["systems"]
    assert [row["system"] for row in found] == ["train.learner=pdgd", "train.learner=fpdgd"]


# --- metrics of periods -----------------------------------------------------------------------------

INTENT = "offline_ndcg@10/intent "
CHANGING: dict[str, Any] = {"population": {"scenario": "abrupt", "clients": 1}}


def write_changing(path: Path, seed: int) -> None:
    """Three runs of four rounds under two intents that take turns, of one interaction each."""
    rng, runs = np.random.default_rng(seed), []
    for repetition in range(3):
        rounds = [
            {"online_ndcg@10": a, "offline_ndcg@10": 0.5, "maxrr": 0.1} | {INTENT + "1": b, INTENT + "2": c}
            for a, b, c in rng.uniform(0.2, 0.8, (4, 3)).tolist()
        ]
        train = {"learner": "pdgd:interactions=1", "click_model": NAMES[seed]}
        runs.append((table_of(rounds, repetition=repetition, train=train, **CHANGING), rounds))
    write_plan(path, runs)


def test_drops_and_online_means_of_periods_by_hand(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_changing(tmp_path / str(seed), seed)
    write_system(tmp_path / "2", [0.5, 0.6, 0.7], train={"click_model": NAMES[2]})  # no change of intent
    folders = [tmp_path / name for name in "012"]
    asked = "study significance --metric ndcg_drop@10 --metric online_mean/period"
    found = answer(asked, *folders)
    tested = {row["metric"]: row for row in found["comparisons"]}
    assert list(tested) == ["ndcg_drop@10/period 2", "online_mean/period 1", "online_mean/period 2"]
    values: dict[str, list[list[float]]] = {name: [[], []] for name in tested}
    for system in (0, 1):
        for a, b, c in (np.random.default_rng(system).uniform(0.2, 0.8, (3, 4, 3))).transpose(0, 2, 1):
            values["ndcg_drop@10/period 2"][system].append(max(0.0, b[1] - c[2]) / b[1])
            values["online_mean/period 1"][system].append((a[0] + a[1]) / 2)
            values["online_mean/period 2"][system].append((a[2] + a[3]) / 2)
    for metric, (ours, theirs) in values.items():
        assert tested[metric]["p"] == pytest.approx(ttest_rel(ours, theirs).pvalue, rel=1e-9), metric
        assert tested[metric]["difference"] == pytest.approx(np.mean(ours) - np.mean(theirs))
    (one,) = answer(f"study significance --metric {'online_mean/period 2'!r}", *folders)["comparisons"]
    assert one == tested["online_mean/period 2"]
    shown = run(asked, *folders)
    assert (shown.code, shown.err) == (0, "")


def test_what_no_two_runs_have_is_told(tmp_path: Path) -> None:
    write_changing(tmp_path / "0", 0)
    write_changing(tmp_path / "1", 1)
    write_system(tmp_path / "2", [0.5, 0.6, 0.7], train={"click_model": NAMES[2]})

    def told(metric: str, *names: str) -> str:
        return refusal("study significance --metric", metric, *(tmp_path / name for name in names))

    unknown = told("drop", "0", "1")
    assert "unknown metric 'drop'" in unknown
    for name in ("maxrr", "ndcg_drop@10/period 2", "online_mean/period 1", "offline_ndcg@10/intent 2"):
        assert name in unknown
    assert "ndcg_drop@10/period 1" not in unknown, "no drop comes before the first period"
    assert "train.click_model=perfect has it; expected two systems" in told("ndcg_drop@10", "0", "2")
    assert "with a twin under each intent (train --twins)" in told("ndcg_delta@10", "0", "1")


def test_metrics_of_periods_are_those_that_train_reports(tmp_path: Path) -> None:
    asked = (
        "train --data synthetic:clueweb-intents:20 --scenario swap --clients 4 --rounds 6 --runs 3 --twins"
    )
    trained = [
        answer(f"{asked} --learner {learner}:interactions=1 --out", tmp_path / learner)["periods"]
        for learner in ("pdgd", "dbgd")
    ]
    folders = (tmp_path / "pdgd", tmp_path / "dbgd")
    for name in ("ndcg_drop@10", "ndcg_delta@10", "online_mean/period", "ndcg@10"):
        means = answer(f"study significance --metric {name}", *folders)["means"]
        column = name.partition("/")[0]
        expected = [rows[period][column] for period in range(3) for rows in trained]
        assert [row["mean"] for row in means] == pytest.approx([one for one in expected if one is not None])
        assert len({row["mean"] for row in means}) > 2, "they would all be equal"
