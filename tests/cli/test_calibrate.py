"""`foltr-audit calibrate`: its table, its JSON, and what it refuses."""

from __future__ import annotations

import pytest

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.privacy.accounting import AccountingContext, SumMembers, upper_bound
from tests.fixtures.command import answer, run
from tests.fixtures.tiny import context

pytestmark = pytest.mark.usefixtures("laws_as_declared")


def test_shares_stand_with_secure_aggregation() -> None:
    """A message with one of 1,000 shares has next to no noise: the least noise must not recommend it."""
    found = answer("calibrate --target-eps 1.2 --parameters 46")
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


def test_sums_that_are_taken_for_granted_are_warned_of() -> None:
    both = "--mechanism gaussian-shares --mechanism laplace"
    found = answer(f"calibrate --target-eps 1.2 --parameters 46 --view aggregate {both}")
    assert [row["code"] for row in found["warnings"]] == ["FA120"]


@pytest.mark.parametrize(
    "options",
    [
        "--rounds 3",
        "--view aggregate",
        "--mechanism skellam",
        "--delta 0",
        "--view individual+lists --unit query --interactions 2 --rank-with global",
        "--view colluding --colluders 5 --delta 1e-5",
    ],
)
def test_its_commands_check_what_it_says(options: str) -> None:
    done = run(f"calibrate --target-eps 2 --clients 30 --arriving 24 --parameters 46 {options}")
    commands = [line for line in done.out.splitlines() if line.startswith("foltr-audit audit ")]
    assert commands
    for command in commands[:2]:
        small = "--data synthetic:mq2007:60 --rounds 1 --trials 60 --require-proof"
        rows = answer(f"{command.removeprefix('foltr-audit ')} {small}")["results"]
        assert {row["verdict"] for row in rows} == {"proven"}


def test_no_noise_hides_what_lists_tell() -> None:
    asked = "calibrate --target-eps 1 --view individual+lists --unit interaction"
    with_lists = answer(f"{asked} --parameters 4 --interactions 2")
    assert with_lists["target"]["sees"] == "message and lists"
    impossible = {row["mechanism"]: row["why_not"] for row in with_lists["results"]}
    assert impossible.pop("click-rr") is None
    assert all("--rank-with global" in why for why in impossible.values())


def test_what_its_options_prove() -> None:
    scope = "--rounds 5 --clients 60 --arriving 50 --parameters 12 --norm 0.3 --unit query --view aggregate"
    found = answer(f"calibrate --target-eps 0.7 --delta 1e-6 {scope}")
    assert found["target"] == {
        "eps": 0.7, "delta": 1e-6, "unit": "query", "view": "aggregate", "sees": "sum", "colluders": None,
        "rounds": 5, "clients": 60, "cohort": 60, "separation": 1, "secret_sample": False, "arriving": 50,
        "interactions": 1, "ranked_with": "local", "parameters": 12,
    }  # fmt: skip
    there = AccountingContext(
        view="aggregate",
        unit="query",
        parameters=12,
        members=SumMembers(cohort=60, fewest=50),
        rounds=5,
        delta=1e-6,
    )
    assert {row["mechanism"] for row in found["results"]} >= {"laplace", "gaussian", "click-rr"}
    for row in found["results"]:
        if row["mechanism"] == "gamma-laplace":
            assert "float32" in row["why_not"]
            continue
        events = DefenseChain(parse_chain(row["defense"])).events(context([0], P=12, shares=60))
        assert upper_bound(events, there).epsilon == row["eps_upper"] <= 0.7 * (1 + 1e-9)
        assert row["why_not"] is None
        assert (row["average_sd"] is None) == (row["mechanism"] == "click-rr")


def test_a_separation_lowers_the_noise_of_a_run() -> None:
    scope = "--view aggregate --rounds 12 --clients 24 --cohort 6 --separation 4 --parameters 46"
    asked = f"calibrate --target-eps 2 {scope} --mechanism correlated-gaussian"
    apart = run(asked)
    (command,) = [line for line in apart.out.splitlines() if line.startswith("foltr-audit audit ")]
    assert "--cohort 6 --separation 4 " in command
    small = "--data synthetic:mq2007:60 --trials 60 --require-proof"
    (row,) = answer(f"{command.removeprefix('foltr-audit ')} {small}")["results"]
    assert row["verdict"] == "proven"
    assert row["run_eps"] == pytest.approx(2.0, rel=1e-3)
    (there,) = answer(asked)["results"]
    assert "correlated over 4 rounds; 3 of 12 rounds, 4 rounds apart" in there["how"]


def test_infinity_is_a_text_in_json() -> None:
    (row,) = answer("calibrate --target-eps 1 --mechanism gaussian --parameters 3 --delta 0")["results"]
    assert row["eps_upper"] == "inf"
    assert row["defense"] == []
    assert "delta" in row["why_not"]


def test_the_number_of_features_comes_from_data() -> None:
    asked = "calibrate --target-eps 1 --mechanism laplace --data synthetic:mq2007:20"
    assert answer(asked)["target"]["parameters"] == 46
