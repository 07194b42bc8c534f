"""What reports pool, what they call a leak, and where they say the data came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.report.meaning import meaning, sure_auc
from tests.command import SMALL, files, run


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
    rows = [row for row in report.results if row["method"] == "olsr"]
    assert [row["population.clients"] for row in rows] == [20, 500]
    assert [row["runs"] for row in report.utility] == [2, 1]
    alone = next(row for row in fa.attack(specs[2]).results if row["method"] == "olsr")
    assert {name: rows[1][name] for name in alone} == alone
    both = [next(row for row in fa.attack(spec).results if row["method"] == "olsr") for spec in specs[:2]]
    assert rows[0]["lists"] == sum(row["lists"] for row in both)
    weighted = sum(row["accuracy"] * row["lists"] for row in both) / rows[0]["lists"]
    assert rows[0]["accuracy"] == pytest.approx(weighted)


def test_specs_with_other_methods_stand_beside_each_other() -> None:
    report = fa.attack([_spec(), _spec(attack={"methods": ["max-gain"]})])
    assert {row["method"] for row in report.results} >= {"olsr", "max-gain"}


def test_no_spec_and_a_spec_without_attack_are_refused() -> None:
    with pytest.raises(fa.FoltrAuditError, match="no Spec to run"):
        fa.attack([])
    with pytest.raises(fa.FoltrAuditError, match="no attack protocol"):
        fa.attack(fa.Spec())


def test_data_that_are_handed_over_are_named_as_what_they_are(tmp_path: Path) -> None:
    data = fa.load_data("synthetic:mq2007:80", normalise="query-minmax")
    report = fa.attack(_spec(), data=data, out=tmp_path / "run")
    assert report.config["data"]["source"] == report.dataset["source"] == "synthetic:mq2007:80"
    assert report.config["data"]["normalise"] == report.dataset["normalised"] == "query-minmax"
    again = fa.attack_trace(tmp_path / "run")
    assert [row["auc"] for row in again.results] == [row["auc"] for row in report.results]


def _rows(rng: np.random.Generator, choices: int, queries: int, shift: float = 0.0) -> list[dict[str, Any]]:
    """Rows of attacks on lists of one clicked and one unclicked document per query."""
    common = {
        "click_model": "perfect",
        "trained_on": "perfect",
        "eps_claimed": 1.2,
        "defense": "d",
        "pdgd": "p",
    }
    rows = [{**common, "method": "random:k=3", "baseline": True, "auc": 0.5, "recall": 0.3, "precision": 0.3}]
    for number in range(choices):
        won = (rng.random(queries) < 0.5 + shift).astype(float)
        resampled = rng.choice(won, size=(1000, queries)).mean(axis=1)
        low, high = np.quantile(resampled, [0.025, 0.975])
        rows.append(
            {**common, "method": f"attack-{number}", "baseline": False, "auc": won.mean(), "queries": queries,
             "auc_ci95": [low, high], "recall": 0.5, "precision": 0.5, "lists": queries}
        )  # fmt: skip
    return rows


def test_without_a_leak_the_sentence_claims_none_and_with_one_it_does() -> None:
    """15 rows to choose from: false alarms stay within a binomial limit of the nominal 2.5 %."""
    rng = np.random.default_rng(7)
    alarms = sum("finds" in meaning(_rows(rng, 15, 40)) for _ in range(200))
    assert alarms <= 12  # P[Bin(200, .025) > 12] < .002
    found = sum("finds" in meaning(_rows(rng, 15, 200, shift=0.3)) for _ in range(20))
    assert found == 20
    naive = sum(
        max(row["auc_ci95"][0] for row in _rows(rng, 15, 40) if not row["baseline"]) > 0.5 for _ in range(200)
    )
    assert naive > 25, "the uncorrected rule fails this test"


def test_a_row_without_interval_is_never_sure() -> None:
    assert sure_auc({"auc": 1.0, "auc_ci95": None, "queries": 1}, 1) == -1.0


def test_training_rounds_refuse_options_of_the_fresh_protocol() -> None:
    for option in (["--click-model", "perfect"], ["--repeats", "2"], ["--attack-on", "vali"]):
        done = run("attack", *SMALL, "--target", "training", *option)
        assert done.code == 2
        assert f"{option[0]}: only with --target fresh" in done.one_error()


def test_a_resumed_folder_holds_one_plan(tmp_path: Path) -> None:
    options = ("attack", *SMALL, "--click-model", "perfect", "--rounds", 1)
    several, one = tmp_path / "several", tmp_path / "one"
    assert run(*options, "--eps", 1.2, "--eps", 3, "--out", several).code == 0
    assert run(*options, "--eps", 1.2, "--out", one).code == 0
    before = files(tmp_path)
    for given, folder in (
        (("--eps", 1.2), several),
        (("--eps", 1.2, "--eps", 4), several),
        (("--eps", 1.2, "--eps", 3), one),
    ):
        done = run(*options, *given, "--out", folder, "--resume")
        assert done.code == 2
        assert "--resume" in done.one_error()
    assert files(tmp_path) == before
    assert run(*options, "--eps", 1.2, "--eps", 3, "--eps", 4, "--out", several, "--resume").code == 0
    assert len(list(several.glob("*/spec.toml"))) == 3


def test_equal_ids_in_two_parts_are_two_queries(tmp_path: Path) -> None:
    rows = "\n".join(f"{d % 3} qid:{q} 1:{d} 2:{(q * d) % 7}" for q in range(10) for d in range(12))
    for part in ("train", "vali", "test"):
        (tmp_path / f"{part}.txt").write_text(rows)
    report = run(
        "attack",
        "--data",
        tmp_path,
        "--clients",
        5,
        "--rounds",
        1,
        "--click-model",
        "informational",
        "--json",
    ).json()
    assert report["results"][0]["queries"] == 20


@pytest.mark.parametrize(
    "text", ["attack = 3", "train = 3", 'data = "x"', "attack.click_models = 3", "train.learner = 3"]
)
def test_a_config_of_other_types_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(text)
    options = ("--method", "olsr", "--interactions", 2, "--data", "synthetic:mq2007:60")
    done = run("attack", "--config", path, *options, "--train-click-model", "same")
    assert done.code == 2
    assert "spec.toml" in done.one_error()


def test_every_count_is_told() -> None:
    done = run("attack", *SMALL, "--click-model", "informational")
    for words in ("without a click left out", "every document clicked kept", "too few documents left out"):
        assert words in done.out
