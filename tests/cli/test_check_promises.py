"""`foltr-audit check` with a limit on what proofs leave to attacks: runs, comparisons, recorded Runs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.cli.test_foreign_trace import one_round, written
from tests.fixtures.command import run

TINY = ("--data", "synthetic:mq2007:60", "--clients", "20", "--rounds", "2")
ONE = (*TINY, "--click-model", "perfect", "--method", "olsr")
LAPLACE = "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3"
PURE = 1 / (1 + math.exp(-1.2))
MESSAGES = 'view = "individual"\n'
SHARES = "clip:norm=1.5+gaussian-shares:sigma=30"  # a twentieth of the noise on a message proves epsilon 1.76


def limits(folder: Path, most: float, more: str = "") -> Path:
    path = folder / "limits.toml"
    path.write_text(f"max_ceiling_auc = {most}\n{more}")
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The comparison that a check of a chain and of no defense leaves behind; no defense breaks the limit."""
    folder = tmp_path_factory.mktemp("promises")
    both = ("--defense", LAPLACE, "--defense", "none")
    done = run("check", limits(folder, PURE, MESSAGES), *ONE, *both, "--out", folder / "kept")
    assert done.code == 1
    broken = [line for line in done.err.splitlines() if line.startswith("broken: ")]
    assert len(broken) == 1
    assert "none, perfect clicks: 1.000; at most .768" in broken[0]
    assert "nothing is proven: nothing randomises what a client sends" in broken[0]
    return folder / "kept"


@pytest.mark.parametrize(
    ("most", "more", "code"),
    [
        (PURE, MESSAGES, 0),
        (0.6, MESSAGES, 1),
        (PURE, "", 1),  # the server sees four lists a message, which follow earlier clicks
        (0.7, 'view = "aggregate"\n', 0),  # the noise of all clients
    ],
)
def test_a_comparison_by_what_is_proven_of_its_chain(
    kept: Path, tmp_path: Path, most: float, more: str, code: int
) -> None:
    asked = ("check", limits(tmp_path, most, more), "--comparison", kept, "--defense", LAPLACE)
    done = run(*asked, "--json")
    assert done.code == code, done.err
    (outcome,) = done.json()["outcomes"]
    assert outcome["limit"] == "max_ceiling_auc"
    assert outcome["value"] <= PURE or "learnt from earlier clicks" in outcome["about"]


def test_a_recorded_run_by_its_spec(tmp_path: Path) -> None:
    made = run("attack", *ONE, "--defense", LAPLACE, "--out", tmp_path / "run")
    assert made.code == 0
    assert run("check", limits(tmp_path, PURE, MESSAGES), "--trace", tmp_path / "run").code == 0
    for most, more in ((0.6, MESSAGES), (PURE, "")):  # by default the lists that follow from clicks are seen
        done = run("check", limits(tmp_path, most, more), "--trace", tmp_path / "run")
        assert done.code == 1
        assert "broken: max_ceiling_auc" in done.err


@pytest.mark.parametrize(
    ("chain", "more", "status"),
    [
        (LAPLACE, "", "holds"),
        (SHARES, "", "not judged"),
        (SHARES, "allow_not_judged = true\n", "not judged"),
        (SHARES, 'view = "aggregate"\n', "holds"),
    ],
)
def test_a_part_of_the_noise_is_no_proof_of_single_messages(
    chain: str, more: str, status: str, tmp_path: Path
) -> None:
    """Of a new run, the comparison that it leaves behind, and a recorded Run alike."""
    defended = ("--rank-with", "global", "--defense", chain)
    text = limits(tmp_path, 0.9, more)
    assert run("attack", *ONE, *defended, "--out", tmp_path / "run").code == 0
    fresh = run("check", text, *ONE, *defended, "--trials", 20, "--out", tmp_path / "kept", "--json")
    kept = run("check", text, "--comparison", tmp_path / "kept", "--json")
    traced = run("check", text, "--trace", tmp_path / "run", "--json")
    for done in (fresh, kept, traced):
        (outcome,) = done.json()["outcomes"]
        assert outcome["status"] == status
        assert ("FA102: " in outcome["missing"]) is (status == "not judged")
        assert done.code == (1 if status == "not judged" and "allow" not in more else 0)
        assert done.json()["holds"] is (status == "holds")


def test_lists_that_follow_from_clicks_void_what_is_proven_of_messages(tmp_path: Path) -> None:
    both = limits(tmp_path, 0.8, "max_proven_eps = 1.3\nno_refuted_claims = true\n")
    check = ("check", both, *ONE, "--defense", LAPLACE, "--trials", 20, "--json")
    seen = run(*check)
    assert seen.code == 1
    status = {outcome["limit"]: outcome["status"] for outcome in seen.json()["outcomes"]}
    assert status == {
        "max_ceiling_auc": "broken",
        "max_proven_eps": "broken",
        "no_refuted_claims": "not judged",
    }
    assert "FA103: laplace: " in seen.json()["outcomes"][-1]["missing"]
    hidden = run(*check, "--rank-with", "global")
    assert (hidden.code, hidden.json()["limits"]["view"]) == (0, "individual+lists")
    assert hidden.json()["outcomes"][-1]["value"] == "proven, epsilon 1.2"
    one = run(*check, "--interactions", 1)
    assert [outcome["value"] for outcome in one.json()["outcomes"]] == [
        outcome["value"] for outcome in hidden.json()["outcomes"]
    ]


def test_a_server_that_only_gets_masked_messages_is_judged_by_what_the_masks_hide(tmp_path: Path) -> None:
    chain = "clip:norm=1.5+skellam:sigma=9,step=0.0001220703125+secure-aggregation"
    proven = {}
    for view in ("", 'view = "aggregate+lists"\n'):
        text = limits(tmp_path, 0.9, view)
        done = run("check", text, *ONE, "--rank-with", "global", "--defense", chain, "--trials", 20, "--json")
        assert done.code == 0
        proven[view] = done.json()["outcomes"][0]["value"]
    assert len(set(proven.values())) == 1


def test_a_trace_without_a_spec_cannot_be_judged(tmp_path: Path) -> None:
    live = written(tmp_path / "live", *one_round())
    done = run("check", limits(tmp_path, 0.6), "--trace", live)
    assert done.code == 1
    assert "the trace holds no Spec" in done.err
