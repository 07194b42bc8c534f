"""`audit --trace`: the claim of a recorded laboratory run, checked by its coins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from foltr_audit.recorder import ReceivedMessage, Recorder, ShownList, coin_flip

import foltr_audit as fa
from tests.fixtures import coin_trace, foreign_trace
from tests.fixtures.coin_trace import CoinSystem
from tests.fixtures.command import run
from tests.fixtures.schemas import agrees_with_published

WEAK = CoinSystem(clients=60, rounds=2, scale=0.05)


def test_a_claim_of_weak_noise_is_refuted(tmp_path: Path) -> None:
    folder = coin_trace.write(tmp_path / "coins", WEAK)
    done = run("audit", "--trace", folder, "--eps", "1.2")
    assert done.code == 1
    assert "refuted" in done.out
    assert "guesses are right" in done.out
    table = run("audit", "--trace", folder, "--claim", "1.2", "--json").json()
    agrees_with_published(table)
    assert table["schema"] == "foltr-audit/audit-trace/2"
    (row,) = table["results"]
    assert (row["eps_claimed"], row["unit"], row["view"]) == (1.2, "interaction", "individual+lists")
    assert row["eps_lower"] > 1.2
    assert row["verdict"] == "refuted"
    assert fa.audit_trace(folder, eps=1.2).json() == run(
        "audit", "--trace", folder, "--eps", "1.2", "--json"
    ).out.rstrip("\n")


def test_the_header_may_claim_and_facts_may_be_given(tmp_path: Path) -> None:
    folder = coin_trace.write(tmp_path / "coins", WEAK, learning_rate=None, eps_claimed=1e6)
    error = run("audit", "--trace", folder).one_error()
    assert "the observer does not know: learning_rate (give --know learning_rate=0.1" in error
    done = run("audit", "--trace", folder, "--know", "learning_rate=0.1", "--view", "aggregate", "--json")
    assert done.code == 0
    (row,) = done.json()["results"]
    assert (row["eps_claimed"], row["view"], row["sees"]) == (1e6, "aggregate+lists", "sum and lists")
    assert done.json()["config"]["known"] == {"learning_rate": 0.1}


def test_says_where_the_server_does_not_have_the_lists(tmp_path: Path) -> None:
    folder = coin_trace.write(tmp_path / "coins", WEAK, lists_known="auditor")
    warnings = run("audit", "--trace", folder, "--eps", "1.2").warnings
    assert any("which this server does not have" in line for line in warnings)
    assert any("checked with delta 0" in line for line in warnings)


def test_a_trace_without_coins_says_how_to_record_them(tmp_path: Path) -> None:
    folder = coin_trace.write(tmp_path / "bare", WEAK, coins=False)
    error = run("audit", "--trace", folder).one_error()
    assert "the trace holds no coin" in error
    assert "toss a fair coin between two click patterns" in error
    for option in (("--trials", "100"), ("--defense", "none")):
        assert "not with --trace" in run("audit", "--trace", folder, *option).one_error()
    assert run("audit", "--know", "pairs=all").one_error().endswith("--know: only with --trace")


def test_coins_that_a_recorder_wrote_are_audited(tmp_path: Path) -> None:
    """A laboratory of another system: it needs the recorder alone."""
    rounds = coin_trace.records(CoinSystem(clients=30, rounds=2, tossing=30))
    facts = {"learning_rate": 0.1, "pairs": "all", "normaliser": "shown", "noise": "none", "eps_claimed": 1.0}
    with Recorder(tmp_path / "recorded", facts, kind="update") as recorder:
        for number, (record, _) in enumerate(rounds):
            messages = []
            for client in range(record.n_messages):
                rows = np.asarray(record.features)[client]
                coin = coin_flip(coin_trace.PATTERNS, 20261123, number, client)
                scores = rows @ record.parameters
                step = 0.1 * foreign_trace.gradient(scores, 0.0, coin.clicks, rows, "all")
                lists = (ShownList(features=rows, canary=coin),)
                messages.append(ReceivedMessage(arrays=step, sender=client, count=1, lists=lists))
            recorder.round(record.parameters, messages)
    for view in ("individual", "aggregate"):
        done = run("audit", "--trace", tmp_path / "recorded", "--view", view, "--json")
        (row,) = done.json()["results"]
        assert (row["coins"], row["verdict"], done.code) == (60, "refuted", 1)
        assert row["guesses"] == row["right"]
