"""`foltr-audit audit`: tables, JSON, exit codes, and one clear line for what cannot be meant."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from foltr_audit.privacy.accounting import UpperBound
from tests.fixtures.command import SHARED, SMALL, run

FEW = (*SMALL, "--trials", "300")
PROVEN = ("--defense", "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3")
ROW = {
    "view",
    "unit",
    "canary",
    "eps_claimed",
    "eps_upper",
    "eps_exact",
    "eps_lower",
    "eps_ceiling",
    "confidence",
    "trials",
    "verdict",
}
VERDICTS = {"proven", "not refuted", "false by exact loss", "refuted", "declared law broken"}


def test_the_published_claim_is_false_for_single_messages() -> None:
    done = run(
        "audit", "--eps", "1.2", *FEW, "--clients", "1000", "--rounds", "1", "--view", "individual", "--json"
    )
    assert done.code == 1
    report = done.json()
    assert report["schema"] == "foltr-audit/audit/1"
    (row,) = report["results"]
    assert set(row) >= ROW
    assert (row["view"], row["unit"], row["canary"]) == ("individual", "interaction", "data:worst")
    assert (row["eps_claimed"], row["eps_upper"], row["eps_exact"]) == (1.2, "inf", "inf")
    assert row["verdict"] == "refuted"
    assert 1.2 < row["eps_lower"] <= row["eps_ceiling"] < 6
    assert {each["estimator"] for each in row["estimates"]} == {"clopper-pearson", "one-run", "betting"}


def test_default_views_and_numbers_that_fit_together() -> None:
    report = run("audit", "--eps", "1.2", *FEW, "--json").json()
    views = ["individual", "individual+lists", "aggregate", "aggregate+lists"]
    assert [row["view"] for row in report["results"]] == views
    sees = ["message", "message and lists", "sum", "sum and lists"]
    assert [row["sees"] for row in report["results"]] == sees
    for row in report["results"]:
        assert row["verdict"] in VERDICTS
        upper, exact = (math.inf if row[name] == "inf" else row[name] for name in ("eps_upper", "eps_exact"))
        assert exact <= upper + 1e-9, "no pair can be worse than what is proven"
    assert report["results"][2]["eps_upper"] == pytest.approx(1.2 * math.sqrt(46), rel=1e-3)
    assert report["results"][3]["eps_upper"] == "inf"


@pytest.mark.parametrize("unit", ["click", "interaction", "query", "client"])
def test_a_true_claim_is_proven_for_every_unit(unit: str) -> None:
    done = run(
        "audit",
        *PROVEN,
        *FEW,
        "--unit",
        unit,
        "--view",
        "individual,aggregate,colluding",
        "--json",
        "--require-proof",
    )
    assert done.code == 0, done.out
    rows = done.json()["results"]
    assert len(rows) == 3
    for row in rows:
        assert row["verdict"] == "proven"
        assert row["eps_upper"] == pytest.approx(1.2)
        assert row["eps_lower"] <= 1.2


def test_a_claim_of_ones_own_and_proofs() -> None:
    weak = run("audit", "--full", *PROVEN, *FEW, "--view", "individual", "--claim", "100")
    assert weak.code == 0
    strong = run("audit", *PROVEN, *FEW, "--view", "individual", "--claim", "0.01", "--json")
    assert strong.code == 1
    assert strong.json()["results"][0]["verdict"] in ("false by exact loss", "refuted")
    nothing = ("audit", "--defense", "none", *FEW, "--view", "individual")
    assert run(*nothing).code == 0
    assert run(*nothing, "--require-proof").code == 1


def test_same_seed_same_bytes_whatever_else_is_audited() -> None:
    one = run("audit", "--eps", "1.2", *FEW, "--view", "aggregate", "--json").json()["results"]
    more = run("audit", "--eps", "1.2", *FEW, "--unit", "click,interaction", "--json", "--threads", "1")
    assert [
        row for row in more.json()["results"] if (row["view"], row["unit"]) == ("aggregate", "interaction")
    ] == one


def test_several_epsilons_and_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    first = run("audit", "--eps", "1.2", "--eps", "4.5", *FEW, "--out", out, "--json")
    assert [row["eps_claimed"] for row in first.json()["results"]] == 4 * [1.2] + 4 * [4.5]
    again = run("audit", "--eps", "1.2", "--eps", "4.5", *FEW, "--out", out, "--resume", "--json")
    assert again.out == first.out
    assert (out / "results.json").read_text() == first.out


def test_a_config_repeats_an_audit(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    options = ("audit", "--eps", "1.2", *FEW, "--unit", "click", "--canary", "data:typical", "--json")
    first = run(*options, "--save-config", spec)
    assert run("audit", "--config", spec, "--json").out == first.out


def test_several_messages_of_one_client() -> None:
    one, four = (
        run(
            "audit",
            *PROVEN,
            *FEW,
            "--unit",
            "client",
            "--canary",
            "message",
            "--view",
            "individual",
            "--messages",
            T,
            "--json",
        ).json()["results"][0]
        for T in (1, 4)
    )
    for name in ("eps_claimed", "eps_upper", "eps_exact"):
        assert four[name] == pytest.approx(4 * one[name])
    assert four["eps_lower"] > one["eps_lower"]
    assert four["verdict"] == "proven"


def test_an_attack_may_keep_the_score() -> None:
    options = ("audit", "--eps", "1.2", *FEW, "--view", "individual", "--score", "lad", "--json")
    assert "--canary-interactions 1" in run(*options).one_error()
    (row,) = run(*options, "--canary-interactions", "1").json()["results"]
    assert row["score"] == "lad"
    assert row["eps_lower"] > 1.2


def test_trials_stop_as_soon_as_a_claim_is_refuted() -> None:
    options = ("--eps", "1.2", *SMALL, "--trials", "1000", "--view", "individual", "--view", "aggregate")
    done = run("audit", *options, "--stop-early", "--json")
    assert done.code == 1
    single, in_a_sum = done.json()["results"]
    assert (single["estimator"], single["trials"], single["verdict"]) == ("betting", 60, "refuted")
    assert single["why"].endswith("; stopped after 60 of 1000 trials")
    assert in_a_sum["trials"] > 60
    assert run("audit", *options, "--stop-early", "--json").json() == done.json()


@pytest.mark.skipif(not (SHARED / "data").exists(), reason="needs the shared data")
def test_the_published_claim_on_real_data() -> None:
    mq2008 = SHARED / "data" / "mq2008"
    done = run("audit", "--eps", "1.2", "--data", mq2008, "--trials", "1000", "--json")
    assert done.code == 1
    individual, lists, aggregate, _ = done.json()["results"]
    assert lists["eps_lower"] == lists["eps_ceiling"]
    assert individual["verdict"] == "refuted"
    assert individual["eps_lower"] >= 5
    assert aggregate["verdict"] in ("false by exact loss", "refuted")
    assert 1.2 < aggregate["eps_exact"] < aggregate["eps_upper"]


def test_a_proof_that_trials_contradict_is_a_fault_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounting that promises too much, as a fault in it would: the exact loss is far above."""
    monkeypatch.setattr(
        "foltr_audit.auditing.audit.upper_bound",
        lambda events, situation: UpperBound(epsilon=0.01, delta=0.0, how="too good"),
    )
    done = run("audit", *PROVEN, *FEW, "--view", "individual")
    assert done.code == 70
    assert "contradiction" in done.out
    assert "this pair has a loss of" in done.err
