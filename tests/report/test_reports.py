"""What reports pool, what they call a leak, and where they say the data came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import foltr_audit as fa
from foltr_audit.core.results import Estimate
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.doubts import AttackedClicks, shown_above, wrong_sign
from foltr_audit.report.attack import describe_results
from foltr_audit.report.documents import Row
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import json_text
from tests.fixtures.command import SMALL, answer, but, files, refusal, run
from tests.fixtures.result_rows import KINDS, attack_row, plain


def _spec(**changes: Any) -> fa.Spec:
    table: dict[str, Any] = {
        "data": {"source": "synthetic:mq2007:60"},
        "population": {"clients": 20},
        "train": {"rounds": 1},
        "defense": ["gamma-laplace:eps=1.2,sensitivity=3"],
        "attack": {"click_models": ["perfect"]},
    }
    for name, value in changes.items():
        table[name] = {**table[name], **value} if isinstance(table.get(name), dict) else value
    return fa.Spec.parse(table)


def test_repetitions_are_pooled_and_nothing_else() -> None:
    specs = [_spec(), _spec(repetition=1), _spec(population={"clients": 500})]
    report = fa.attack(specs)
    rows = [row for row in plain(report.results) if row["method"] == "olsr"]
    assert [row["population.clients"] for row in rows] == [20, 500]
    assert [row["runs"] for row in plain(report.utility)] == [2, 1]
    each = [plain(fa.attack(spec).results) for spec in specs]
    *both, alone = (next(row for row in found if row["method"] == "olsr") for found in each)
    assert {name: rows[1][name] for name in alone} == alone
    assert rows[0]["lists"] == sum(row["lists"] for row in both)
    weighted = sum(row["accuracy"] * row["lists"] for row in both) / rows[0]["lists"]
    assert rows[0]["accuracy"] == pytest.approx(weighted)


def test_specs_with_other_methods_stand_beside_each_other() -> None:
    report = fa.attack([_spec(), _spec(attack={"methods": ["max-gain"]})])
    assert {row["method"] for row in plain(report.results)} >= {"olsr", "max-gain"}


def test_no_spec_and_a_spec_without_attack_are_refused() -> None:
    with pytest.raises(fa.FoltrAuditError, match="no Spec to run"):
        fa.attack([])
    with pytest.raises(fa.FoltrAuditError, match="no attack protocol"):
        fa.attack(fa.Spec())


def test_data_that_are_handed_over_are_named_as_what_they_are(tmp_path: Path) -> None:
    data = fa.load_data("synthetic:mq2007:80", normalise="query-minmax")
    report = fa.attack(_spec(), data=data, out=tmp_path / "run")
    config: Any = report.config
    assert config["data"]["source"] == report.dataset["source"] == "synthetic:mq2007:80"
    assert config["data"]["normalise"] == report.dataset["normalised"] == "query-minmax"
    again = fa.attack_trace(tmp_path / "run")
    for kind in KINDS:
        if kind != "facts":
            assert json_text(plain(getattr(again, kind))) == json_text(plain(getattr(report, kind))), kind


def _rows(rng: np.random.Generator, choices: int, queries: int, shift: float = 0.0) -> list[Row]:
    """Rows of attacks on lists of one clicked and one unclicked document per query."""
    rows = [attack_row(method="random:k=3", baseline=True, auc=0.5, recall=0.3, precision=0.3)]
    row = attack_row(recall=0.5, precision=0.5, lists=queries, queries=queries)
    resamples = QueryBootstrap(np.arange(queries).astype(np.str_), Streams(1))
    for number in range(choices):
        auc = resamples.share((rng.random(queries) < 0.5 + shift).astype(float))
        above = auc.minus(resamples.constant(0.5))
        rows.append(row.with_values(method=f"attack-{number}", auc=auc, above_guess=above, guess_auc=0.5))
    return rows


def _low(row: Row) -> float:
    """The lower end of the interval of the AUC; that of no attack is low."""
    return float((row["auc"].ci95 or (0.0, 0.0))[0])


def test_without_a_leak_the_sentence_claims_none_and_with_one_it_does() -> None:
    """15 rows to choose from: false alarms stay within a binomial limit of the nominal 5 %."""
    rng = np.random.default_rng(7)
    alarms = sum("recovers" in describe_results(_rows(rng, 15, 40)) for _ in range(200))
    assert alarms <= 20  # P[Bin(200, .05) > 20] < .002
    found = sum("recovers" in describe_results(_rows(rng, 15, 200, shift=0.3)) for _ in range(20))
    assert found == 20
    naive = sum(max(map(_low, _rows(rng, 15, 40))) > 0.5 for _ in range(200))
    assert naive > 25, "the uncorrected rule fails this test"


def test_the_sentence_says_that_few_lists_were_attacked() -> None:
    rng = np.random.default_rng(7)
    for shift in (0.0, 0.5):
        assert describe_results(_rows(rng, 1, 29, shift=shift)).endswith(" This rests on only 29 lists.")
        assert "rests on" not in describe_results(_rows(rng, 1, 30, shift=shift))


@pytest.mark.parametrize("choices", [1, 15])
@pytest.mark.parametrize("queries", [3, 5, 6, 9, 10, 20, 200])
def test_a_perfect_auc_is_as_sure_as_that_many_won_trials(choices: int, queries: int) -> None:
    """It is better than guessing exactly where so many coins all show heads too rarely."""
    auc = QueryBootstrap(np.arange(queries).astype(np.str_), Streams(1)).share(np.ones(queries))
    level = 0.05 / choices
    won = binomtest(queries, queries).proportion_ci(1 - 2 * level, method="exact")
    ends = auc.ends(level)
    assert ends is not None
    assert ends[0] == pytest.approx(won.low, rel=1e-9)
    assert shown_above(auc, 0.5, choices) == (0.5**queries < level)


def test_a_row_without_interval_is_never_sure() -> None:
    assert not shown_above(Estimate(1.0), 0.5)


def test_a_resumed_folder_holds_one_plan(tmp_path: Path) -> None:
    options = ("attack", *but(SMALL, "--rounds", 1), "--click-model", "perfect")
    several, one = tmp_path / "several", tmp_path / "one"
    assert run(*options, "--eps", 1.2, "--eps", 3, "--out", several).code == 0
    assert run(*options, "--eps", 1.2, "--out", one).code == 0
    before = files(tmp_path)
    for given, folder in (
        (("--eps", 1.2), several),
        (("--eps", 1.2, "--eps", 4), several),
        (("--eps", 1.2, "--eps", 3), one),
    ):
        assert "--resume" in refusal(*options, *given, "--out", folder, "--resume")
    assert files(tmp_path) == before
    assert run(*options, "--eps", 1.2, "--eps", 3, "--eps", 4, "--out", several, "--resume").code == 0
    assert len(list(several.glob("*/spec.toml"))) == 3


def test_equal_ids_in_two_parts_are_two_queries(tmp_path: Path) -> None:
    rows = "\n".join(f"{d % 3} qid:{q} 1:{d} 2:{(q * d) % 7}" for q in range(10) for d in range(12))
    for part in ("train", "vali", "test"):
        (tmp_path / f"{part}.txt").write_text(rows)
    report = answer("attack --clients 5 --rounds 1 --click-model informational --data", tmp_path)
    assert report["results"][0]["queries"] == 20


def test_an_attack_that_reads_backwards_is_not_called_guessing() -> None:
    """Significantly below one half is as much as above it; false alarms are as rare as those of leaks."""
    rng = np.random.default_rng(8)
    backwards = [describe_results(_rows(rng, 15, 200, shift=-0.3)) for _ in range(20)]
    assert all("with the wrong sign" in text and "better than guessing" not in text for text in backwards)
    alarms = sum("with the wrong sign" in describe_results(_rows(rng, 15, 40)) for _ in range(200))
    assert alarms <= 12  # P[Bin(200, .025) > 12] < .002
    one_reads = [*_rows(rng, 1, 200, shift=-0.3), *_rows(rng, 1, 200, shift=0.3)[1:]]
    assert "recovers" in describe_results(one_reads)
    clicks = [AttackedClicks("perfect", row["method"], row["auc"]) for row in one_reads[1:]]
    assert "with the wrong sign" in str(wrong_sign(clicks))
