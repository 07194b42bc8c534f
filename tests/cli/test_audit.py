"""`foltr-audit audit`: tables, JSON, exit codes, and one clear line for what cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from foltr_audit.privacy.accounting import UpperBound
from tests.fixtures.command import SHARED, SMALL, answer, but, refusal, run

pytestmark = pytest.mark.usefixtures("laws_as_declared")
FEW = (*SMALL, "--trials", "300")
PROVEN = ("--defense", "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3")


def test_the_published_claim_is_false_for_single_messages() -> None:
    done = run("audit --eps 1.2 --json --view individual", *but(FEW, "--clients", 1000, "--rounds", 1))
    assert done.code == 1
    (row,) = done.json()["results"]
    assert (row["view"], row["unit"], row["canary"]) == ("individual", "interaction", "data:worst")
    assert (row["eps_claimed"], row["eps_upper"], row["eps_exact"]) == (1.2, "inf", "inf")
    assert row["verdict"] == "refuted"
    assert 1.2 < row["eps_lower"] <= row["eps_ceiling"] < 6
    assert {each["estimator"] for each in row["estimates"]} == {"clopper-pearson", "one-run", "betting"}


def test_default_views_and_numbers_that_fit_together() -> None:
    rows = run("audit --eps 1.2 --json", *FEW).json()["results"]
    single = [("individual", "message"), ("individual+lists", "message and lists")]
    sums = [("aggregate", "sum"), ("aggregate+lists", "sum and lists")]
    assert [(row["view"], row["sees"]) for row in rows] == single + sums
    for row in rows:
        upper, exact = (float(row[name] or 0) for name in ("eps_upper", "eps_exact"))
        assert exact <= upper + 1e-9, "no pair can be worse than what is proven"
    assert rows[2]["eps_upper"] == rows[3]["eps_upper"] == "inf", "float32 spoils the sum of Gamma shares"
    assert rows[2]["eps_exact"] is None, "as its law is not that of the sum of real numbers"


def test_a_true_claim_is_proven_for_every_unit() -> None:
    views, units = "individual,aggregate,colluding", ("click", "interaction", "query", "client")
    for unit in units:
        few = but(FEW, "--trials", 60)
        rows = answer("audit --require-proof --view", views, *PROVEN, *few, "--unit", unit)["results"]
        assert [row["verdict"] for row in rows] == ["proven"] * 3
        for row in rows:
            assert row["eps_upper"] == pytest.approx(1.2)
            assert row["eps_lower"] <= 1.2


def test_a_claim_of_ones_own_and_proofs() -> None:
    assert run("audit --full --claim 100 --view individual", *PROVEN, *FEW).code == 0
    strong = run("audit --claim 0.01 --view individual --json", *PROVEN, *FEW)
    assert strong.code == 1
    assert strong.json()["results"][0]["verdict"] in ("false by exact loss", "refuted")
    nothing = ("audit --defense none --view individual", *FEW)
    assert run(*nothing).code == 0
    assert run(*nothing, "--require-proof").code == 1


def test_same_seed_same_bytes_whatever_else_is_audited() -> None:
    one = run("audit --eps 1.2 --view aggregate --json", *FEW).json()["results"]
    more = run("audit --eps 1.2 --unit click,interaction --threads 1 --json", *FEW).json()["results"]
    assert [row for row in more if (row["view"], row["unit"]) == ("aggregate", "interaction")] == one


def test_several_epsilons_and_a_folder(tmp_path: Path) -> None:
    audit = ("audit --eps 1.2 --eps 4.5 --json", *FEW, "--out", tmp_path / "runs")
    first = run(*audit)
    assert [row["eps_claimed"] for row in first.json()["results"]] == 4 * [1.2] + 4 * [4.5]
    assert run(*audit, "--resume").out == first.out == (tmp_path / "runs" / "results.json").read_text()


def test_a_config_repeats_an_audit(tmp_path: Path) -> None:
    asked = "audit --eps 1.2 --unit click --canary data:typical --json --save-config"
    first = run(asked, tmp_path / "s", *FEW)
    assert run("audit --json --config", tmp_path / "s").out == first.out


def test_several_messages_of_one_client() -> None:
    audit = ("audit --unit client --canary message --view individual", *PROVEN, *FEW, "--messages")
    one, four = (answer(*audit, count)["results"][0] for count in (1, 4))
    for name in ("eps_claimed", "eps_upper", "eps_exact"):
        assert four[name] == pytest.approx(4 * one[name])
    assert four["eps_lower"] > one["eps_lower"]
    assert four["verdict"] == "proven"


def test_an_attack_may_keep_the_score() -> None:
    audit = ("audit --eps 1.2 --view individual --score lad --json", *FEW)
    assert "--canary-interactions 1" in refusal(*audit)
    (row,) = run(*audit, "--canary-interactions", "1").json()["results"]
    assert row["score"] == "lad"
    assert row["eps_lower"] > 1.2


@pytest.mark.skipif(not (SHARED / "data").exists(), reason="needs the shared data")
def test_the_published_claim_on_real_data() -> None:
    mq2008 = SHARED / "data" / "mq2008"
    done = run("audit --eps 1.2 --trials 1000 --json --data", mq2008)
    assert done.code == 1
    individual, lists, aggregate, _ = done.json()["results"]
    assert lists["eps_lower"] == lists["eps_ceiling"]
    assert individual["verdict"] == "refuted"
    assert individual["eps_lower"] >= 5
    assert aggregate["verdict"] == "refuted"
    assert (aggregate["eps_exact"], aggregate["eps_upper"]) == (None, "inf")


def test_a_proof_that_trials_contradict_is_a_fault_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounting that promises too much, as a fault in it would: the exact loss is far above."""
    bound = UpperBound(epsilon=0.01, delta=0.0, how="too good")
    monkeypatch.setattr("foltr_audit.auditing.audit.upper_bound", lambda *_: bound)
    done = run("audit --view individual", *PROVEN, *FEW)
    assert done.code == 70
    assert "contradiction" in done.out
    assert "this pair has a loss of" in done.err
