"""The benchmark of robust rules: losses are paired with the plain mean, and prices are those of the rule."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.robust_rules import GUESS, MEAN, NO_POISONING, RobustStudy, RuleSecrecy, main
from foltr_audit.judge.significance import paired_t_test

DATA = "synthetic:mq2007:40"


def test_every_rule_has_a_row_for_each_poisoning_and_one_of_its_price(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.robust_rules.ATTACK", GUESS)  # how much is read is another test's subject
    rules = [MEAN, "median"]
    chosen = [word for rule in rules for word in ("--rule", rule)]
    chosen += ["--poisoning", "lie", "--share", "0.2", "--share", "0.3"]
    main(["--data", DATA, "--rounds", "2", "--runs", "3", "--attacked", "1", *chosen])
    rows = json.loads(capsys.readouterr().out)["rows"]
    trained = [(row["rule"], row["poisoning"], row["share"]) for row in rows if "poisoning" in row]
    each = [(NO_POISONING, 0.0), ("lie", 0.2), ("lie", 0.3)]
    assert trained == [(rule, *one) for rule in rules for one in each]
    assert rows[0]["lost"] == 0.0
    assert [row["secure_aggregation"] for row in rows if "view" in row] == [True, False]


def test_what_is_lost_is_paired_with_the_mean_of_the_same_run() -> None:
    study = RobustStudy(DATA, rounds=3, runs=3, poisonings=("gradient-reversal",))
    honest, poisoned = (
        study.ndcg(MEAN, NO_POISONING),
        study.ndcg("krum:malicious=3", "gradient-reversal:share=0.3"),
    )
    row = list(study.utility_rows("krum:malicious=3"))[1]
    assert row["lost"] == pytest.approx(np.mean(honest - poisoned))
    assert row["lost_ci95"] == pytest.approx(paired_t_test(honest, poisoned).interval)


def test_krum_gives_one_client_away_in_a_round() -> None:
    """All its lists are read; at most one list a round is open, and 46 numbers of 4 bytes are sent."""
    row = RuleSecrecy(RobustStudy(DATA), "krum:malicious=3", rounds=4).row()
    assert row["exact"] == 1.0
    assert row["right"] == row["named"] == row["lists"] <= row["rounds"] == 8
    assert row["read_a_round"] == row["lists"] / 8
    assert row["bytes"] == 46 * 4
    assert row["secure_bytes"] is None
