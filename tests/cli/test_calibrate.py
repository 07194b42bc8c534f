"""`foltr-audit calibrate`: its table, its JSON, and what it refuses."""

from __future__ import annotations

import math
import shlex

import pytest

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.privacy.accounting import AccountingContext, upper_bound
from tests.fixtures.command import run
from tests.fixtures.tiny import context


def test_the_table_gives_options_to_pass_on() -> None:
    done = run("calibrate", "--target-eps", "1.2", "--parameters", 46)
    assert done.code == 0, done.err
    assert done.err == ""
    assert "--defense clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3 " in done.out
    assert "where the server sees the message" in done.out
    pure = run("calibrate", "--target-eps", "1.2", "--parameters", 46, "--unit", "client", "--delta", 0)
    assert "gaussian: impossible: Gaussian noise has no epsilon at delta 0" in pure.out
    assert "click-rr: impossible: randomised clicks hide clicks" in pure.out


def test_shares_stand_with_secure_aggregation() -> None:
    """A message with one of 1,000 shares has next to no noise: the least noise must not recommend it."""
    asked = ("calibrate", "--target-eps", 1.2, "--parameters", 46)
    found = run(*asked, "--json").json()
    assert (found["target"]["view"], found["target"]["unit"]) == ("individual", "interaction")
    assert found["target"]["delta"] == 1e-5
    by_name = {row["mechanism"]: row for row in found["results"]}
    for name in ("skellam", "discrete-gaussian"):
        assert by_name[name]["sum_only"]
        assert by_name[name]["defense"][-1] == "secure-aggregation"
    for name in ("gamma-laplace", "gaussian-shares"):  # a secure sum rounds their shares one by one
        row = by_name[name]
        assert row["why_not"] or row["average_sd"] >= by_name["gaussian"]["average_sd"]
    assert not by_name["laplace"]["sum_only"]
    table = run(*asked)
    lines = [line for line in table.out.splitlines() if line.startswith("foltr-audit audit ")]
    assert all("+secure-aggregation" in line for line in lines if "skellam" in line or "discrete" in line)


def test_sums_that_are_taken_for_granted_are_warned_of() -> None:
    asked = ("calibrate", "--target-eps", 1.2, "--parameters", 46, "--view", "aggregate")
    done = run(*asked, "--mechanism", "gamma-laplace", "--mechanism", "laplace")
    assert "sum only" in done.out
    assert "warning FA120: gamma-laplace: the bound holds for the sum only" in done.err
    assert "1/1000 of the noise" in done.err
    found = run(*asked, "--mechanism", "gamma-laplace", "--json").json()
    assert len(found["warnings"]) == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--rounds", 3),
        ("--view", "aggregate"),
        ("--mechanism", "skellam"),
        ("--delta", 0),
        ("--view", "individual+lists", "--unit", "query", "--interactions", 2, "--rank-with", "global"),
        ("--view", "colluding", "--colluders", 5, "--delta", "1e-5"),
    ],
)
def test_its_commands_check_what_it_says(options: tuple[object, ...]) -> None:
    asked = ("--target-eps", 2, "--clients", 30, "--arriving", 24, "--parameters", 46, *options)
    done = run("calibrate", *asked)
    commands = [line for line in done.out.splitlines() if line.startswith("foltr-audit audit ")]
    assert commands
    for command in commands[:2]:
        small = ("--data", "synthetic:mq2007:60", "--rounds", 1, "--trials", 60, "--require-proof")
        audited = run(*shlex.split(command)[1:], *small, "--json")
        assert audited.code == 0, audited.err
        assert {row["verdict"] for row in audited.json()["results"]} == {"proven"}


def test_no_noise_hides_what_lists_tell() -> None:
    asked = ("calibrate", "--target-eps", 1, "--view", "individual+lists", "--unit", "interaction")
    with_lists = run(*asked, "--parameters", 4, "--interactions", 2, "--json").json()
    assert with_lists["target"]["sees"] == "message and lists"
    impossible = {row["mechanism"]: row["why_not"] for row in with_lists["results"]}
    assert impossible.pop("click-rr") is None
    assert all("--rank-with global" in why for why in impossible.values())


@pytest.mark.parametrize("target", ["1e-300", "1e300", "0", "nan", "inf"])
def test_targets_out_of_range(target: str) -> None:
    done = run("calibrate", "--target-eps", target)
    assert done.code == 2
    assert "expected 1e-06 to 1000" in done.one_error()


def test_what_its_options_prove() -> None:
    done = run("calibrate", "--target-eps", 0.7, "--delta", 1e-6, "--rounds", 5, "--clients", 60,
               "--arriving", 50, "--parameters", 12, "--norm", 0.3, "--unit", "query", "--view",
               "aggregate", "--json")  # fmt: skip
    found = done.json()
    assert found["schema"] == "foltr-audit/calibrate/2"
    assert found["target"] == {
        "eps": 0.7, "delta": 1e-6, "unit": "query", "view": "aggregate", "sees": "sum", "colluders": None,
        "rounds": 5, "clients": 60, "cohort": 60, "separation": 1, "secret_sample": False, "arriving": 50,
        "interactions": 1, "ranked_with": "local", "parameters": 12,
    }  # fmt: skip
    there = AccountingContext(
        view="aggregate", unit="query", parameters=12, shares=60, arriving=50, rounds=5, delta=1e-6
    )
    assert {row["mechanism"] for row in found["results"]} >= {"laplace", "gaussian", "click-rr"}
    for row in found["results"]:
        events = DefenseChain(parse_chain(row["defense"])).events(context([0], P=12, shares=60))
        assert upper_bound(events, there).epsilon == row["eps_upper"] <= 0.7 * (1 + 1e-9)
        assert row["why_not"] is None
        assert (row["average_sd"] is None) == (row["mechanism"] == "click-rr")


def test_a_separation_lowers_the_noise_of_a_run() -> None:
    asked = ("calibrate", "--target-eps", 2, "--view", "aggregate", "--rounds", 12, "--clients", 24,
             "--cohort", 6, "--parameters", 46, "--mechanism", "correlated-gaussian")  # fmt: skip
    apart = run(*asked, "--separation", 4)
    (command,) = [line for line in apart.out.splitlines() if line.startswith("foltr-audit audit ")]
    assert "--cohort 6 --separation 4 " in command
    small = ("--data", "synthetic:mq2007:60", "--trials", 60, "--require-proof", "--json")
    (row,) = run(*shlex.split(command)[1:], *small).json()["results"]
    assert row["verdict"] == "proven"
    assert row["run_eps"] == pytest.approx(2.0, rel=1e-3)
    (there,) = run(*asked, "--separation", 4, "--json").json()["results"]
    assert "correlated over 4 rounds; 3 of 12 rounds, 4 rounds apart" in there["how"]
    refused = run(*asked, "--separation", 5)
    assert refused.code == 2
    assert refused.err == "error: --separation: 5 with cohorts of 6 out of 24 clients; expected 1 to 4\n"


def test_infinity_is_a_text_in_json() -> None:
    (row,) = run(
        "calibrate", "--target-eps", 1, "--mechanism", "gaussian", "--parameters", 3, "--delta", 0, "--json"
    ).json()["results"]
    assert row["eps_upper"] == "inf"
    assert row["defense"] == []
    assert "delta" in row["why_not"]


def test_the_number_of_features_comes_from_data() -> None:
    asked = ("calibrate", "--target-eps", 1, "--mechanism", "laplace", "--json")
    assert run(*asked, "--data", "synthetic:mq2007:20").json()["target"]["parameters"] == 46


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--target-eps", -1), "--target-eps: -1"),
        (("--target-eps", 1, "--delta", 1), "delta 1"),
        (("--target-eps", 1, "--view", "server"), "unknown view 'server'"),
        (("--target-eps", 1, "--unit", "list"), "unknown unit 'list'"),
        (("--target-eps", 1, "--mechanism", "laplas"), "did you mean 'laplace'"),
        (("--target-eps", 1, "--arriving", 1001), "1001 of 1000"),
        (("--target-eps", 1, "--ord", 3), "--ord: 3"),
        (("--target-eps", 1, "--norm", math.nan), "--norm: nan"),
        (("--target-eps", 1, "--rounds", 0), "rounds 0"),
        (("--target-eps", 1, "--data", "x"), "give one or the other"),
        (("--target-eps", 1, "--rank-with", "both"), "expected local or global"),
        (("--target-eps", 1, "--colluders", 3), "expected --view colluding"),
        (
            ("--target-eps", 1, "--view", "colluding", "--colluders", 1000),
            "--colluders: 1000 of 1000 clients; expected 0 to 999",
        ),
        ((), "--target-eps"),
    ],
)
def test_refusals(wrong: tuple[object, ...], message: str) -> None:
    done = run("calibrate", "--parameters", 4, *wrong)
    assert done.code == 2
    assert message in done.one_error()
