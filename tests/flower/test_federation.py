"""Federations of Flower itself, in one process, recorded and read back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import foltr_audit as fa
from foltr_audit.trace import Trace, validate
from tests.fixtures.flower import flower_python, run_program
from tests.fixtures.result_rows import plain
from tests.recorder.test_recorder import header, table

CASES = (
    *("plain", "no_consent", "local_dp", "pushes", "personal", "server_fn", "secagg", "hostile", "twice"),
    *("weights", "nobody"),
)
ROUNDS, CLIENTS = 3, 12


def python_with_flower() -> Path:
    return flower_python() or pytest.skip("no environment with Flower 1.41; `make flower` makes it")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the trace of each case."""
    folder = tmp_path_factory.mktemp("flower")
    run_program(python_with_flower(), folder, *CASES)
    return folder


def outcomes(trace: Path, part: int, stage: str = "") -> dict[int, str]:
    """What became of each node in a stage of a round."""
    cohort = table(trace, "observed/cohort", part)
    rows = zip(cohort["node"], cohort["outcome"], cohort["stage"], strict=True)
    return {int(node): str(outcome) for node, outcome, at in rows if str(at) == stage}


def floats(columns: dict[str, NDArray[np.generic]], name: str) -> NDArray[np.float64]:
    return columns[name].astype(np.float64)


@pytest.mark.parametrize("case", [case for case in CASES if case != "personal"])
def test_a_recorded_federation_is_a_valid_trace(runs: Path, case: str) -> None:
    assert validate(runs / case / "trace") == []
    rounds = Trace.open(runs / case / "trace").rounds()
    expected = {"hostile": 2, "twice": 4}.get(case, ROUNDS)
    assert [record.round for record in rounds] == list(range(expected))


def test_clicks_are_read_out_of_a_recorded_federation(runs: Path) -> None:
    """Updates without noise that are linear in the clicks: least squares finds every click."""
    report = fa.attack_trace(runs / "plain" / "trace", ["olsr"])
    row = next(row for row in plain(report.results) if row["method"] == "olsr")
    assert row["exact"] == 1.0


@pytest.mark.parametrize("case", ["plain", "no_consent", "pushes", "server_fn"])
def test_aggregates_are_the_next_models_and_the_means_of_the_messages(runs: Path, case: str) -> None:
    trace = runs / case / "trace"
    for part in range(ROUNDS):
        rounds, messages = table(trace, "observed/rounds", part), table(trace, "observed/messages", part)
        mean = floats(messages, "array-0").reshape(len(messages["count"]), -1).mean(axis=0)
        np.testing.assert_allclose(floats(rounds, "aggregate")[0], mean, rtol=1e-5, atol=1e-7)
        assert "facts" not in rounds
        if part + 1 < ROUNDS:
            following = table(trace, "observed/rounds", part + 1)
            np.testing.assert_array_equal(rounds["aggregate"], following["parameters"])
    assert not (trace / f"part-{ROUNDS:05d}.json").exists()


def test_failures_stragglers_ids_and_clear_metrics(runs: Path) -> None:
    trace = runs / "plain" / "trace"
    for part in range(ROUNDS):
        messages = table(trace, "observed/messages", part)
        found = outcomes(trace, part)
        assert sorted(found.values()) == ["arrived"] * 9 + ["failed"] * 2 + ["late"]
        arrived = {node for node, outcome in found.items() if outcome == "arrived"}
        assert set(messages["sender"].tolist()) == arrived
        assert max(found) >= 2**63
        assert sorted(outcomes(trace, part, "evaluate").values()) == ["arrived"] * 11 + ["late"]
        metrics = table(trace, "observed/metrics", part)
        assert set(metrics["name"].tolist()) == {"loss"}
        assert np.all(floats(messages, "bytes") > 16 * 4)
        assert np.all(messages["count"] == 1)
    reasons = set(table(trace, "observed/cohort")["reason"].tolist())
    assert reasons == {"", "code 2: RuntimeError('no battery')"}
    final = np.load(runs / "plain" / "final.npy", allow_pickle=False)
    np.testing.assert_array_equal(table(trace, "observed/rounds", 2)["aggregate"], final.astype(np.float64))


def test_consenting_clients_tell_lists_clicks_and_updates_before_the_defense(runs: Path) -> None:
    for case, clipped in (("plain", False), ("local_dp", True)):
        trace = runs / case / "trace"
        rounds, messages = table(trace, "observed/rounds"), table(trace, "observed/messages")
        lists, clicks = table(trace, "observed/interactions"), table(trace, "truth/clicks")
        updates = floats(table(trace, "truth/messages"), "update")
        x = floats(lists, "features")
        c = floats(clicks, "clicks")
        expected = 0.1 * np.einsum("ik,ikd->id", c - c.mean(axis=1, keepdims=True), x)
        np.testing.assert_allclose(updates, expected, atol=1e-6)
        seen = floats(messages, "array-0").reshape(updates.shape) - floats(rounds, "parameters")
        assert np.allclose(seen, updates, atol=1e-6) != clipped


def test_the_facts_of_local_dp(runs: Path) -> None:
    facts = header(runs / "local_dp" / "trace")["knowledge"]
    assert isinstance(facts, dict)
    assert (facts["local_dp_clip"], facts["claimed_sensitivity"], facts["local_dp_eps"]) == (0.05, 0.05, 50.0)
    name, _, sigma = facts["noise"].partition(":sigma=")
    assert name == "gaussian"
    assert float(sigma) == pytest.approx(0.05 * np.sqrt(2 * np.log(1.25e5)) / 50)
    trace = runs / "local_dp" / "trace"
    noise = []
    for part in range(ROUNDS):
        updates = floats(table(trace, "truth/messages", part), "update")
        norms = np.linalg.norm(updates, axis=1, keepdims=True)
        clipped = updates * np.minimum(1, 0.05 / np.maximum(norms, 1e-9))
        sent = floats(table(trace, "observed/messages", part), "array-0").reshape(updates.shape)
        noise.append(sent - floats(table(trace, "observed/rounds", part), "parameters") - clipped)
    # About 550 numbers: their standard deviation is within 15 % at 5 of its own standard deviations. A client
    # without a click is missing: Flower's clip divides by the norm of its update, which is 0.
    assert np.std(np.concatenate(noise)) == pytest.approx(float(sigma), rel=0.15)


def test_clients_that_tell_nothing_leave_neither_lists_nor_truth(runs: Path) -> None:
    trace = runs / "no_consent" / "trace"
    assert header(trace)["has_truth"] is False
    assert header(trace)["knowledge"] == {}
    assert not (trace / "truth").exists()
    assert len(table(trace, "observed/interactions")["query"]) == 0


def test_a_server_that_sends_personal_models_goes_on_unrecorded(runs: Path) -> None:
    assert not (runs / "personal" / "trace").exists()


def test_secure_aggregation_is_recorded_as_words_and_their_sum(runs: Path) -> None:
    trace = runs / "secagg" / "trace"
    facts = header(trace)["knowledge"]
    encoding = {"clipping_range": 8.0, "quantization_range": 2**22, "modulus_bits": 32, "max_weight": 1.0}
    masks = {"mask_seed_bits": 32, "num_shares": 5, "reconstruction_threshold": 3}
    told = {"of": "model", "masking": "flower-secagg", "lists_known": "auditor"}
    assert facts == {**told, **encoding, **masks}
    levels, clip = 2**22, 8.0
    for part in range(ROUNDS):
        rounds, messages = table(trace, "observed/rounds", part), table(trace, "observed/messages", part)
        assert messages["array-0"].shape == (CLIENTS - 1, 17)
        assert rounds["has_total"].tolist() == [True]
        # What the sum must be: of each client's parameters, quantised to a step up or down at random.
        models = floats(rounds, "parameters") + floats(table(trace, "truth/messages", part), "update")
        exact = ((models + clip) * levels / (2 * clip)).sum(axis=0)
        total = floats(rounds, "total")[0]
        assert total[0] == (CLIENTS - 1) * levels
        assert np.all(np.abs(total[1:] - exact) <= CLIENTS)
        plain = np.sum(messages["array-0"].astype(np.uint64), axis=0) % np.uint64(2**32)
        assert np.mean(plain == rounds["total"][0]) < 0.2  # the masks of those that arrived do not cancel
        assert sorted(outcomes(trace, part).values()) == ["arrived"] * 11 + ["failed"]
        assert set(outcomes(trace, part, "setup").values()) == {"arrived"}
        seeds = outcomes(trace, part, "unmask: shares of the mask seed")
        keys = outcomes(trace, part, "unmask: shares of the secret key")
        assert (len(seeds), len(keys), len(seeds | keys)) == (CLIENTS - 1, 1, CLIENTS)
        metrics = table(trace, "observed/metrics", part)
        assert set(metrics["name"].tolist()) == {"clicks"}
        clicks = floats(table(trace, "truth/clicks", part), "clicks").sum(axis=1)
        np.testing.assert_array_equal(floats(metrics, "value"), clicks)


def test_a_killed_server_loses_at_most_the_open_round(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(python_with_flower(), tmp_path, "killed", until=tmp_path / "killed" / "stuck")
    trace = tmp_path / "killed" / "trace"
    assert sorted(path.name for path in trace.glob("part-*")) == ["part-00000.json", "part-00001.json"]
    np.testing.assert_array_equal(len(table(trace, "observed/messages", 1)["count"]), CLIENTS)


@pytest.mark.parametrize("name", ["trace", "unasked"])
def test_clients_cannot_spoil_a_trace_nor_end_its_recording(runs: Path, name: str) -> None:
    trace = runs / "hostile" / name
    assert validate(trace) == []
    assert header(trace)["has_truth"] is (name == "trace")
    for part in range(2):
        found = list(outcomes(trace, part).values())
        assert sorted(found) == ["arrived"] * 5 + ["failed"] * 7
        assert table(trace, "observed/messages", part)["count"].size == 5
        names = table(trace, "observed/metrics", part)["name"].tolist()
        assert all(str(metric).isprintable() and len(str(metric)) <= 200 for metric in names)
    lists = table(trace, "observed/interactions")["query"].tolist()
    # Of the five whose arrays and weights fit, two tell what holds no lists.
    assert len(lists) == (3 if name == "trace" else 0)
    assert (header(trace)["knowledge"] == {"lists_known": "auditor"}) is (name == "trace")


def test_weights_that_are_not_whole_are_those_of_the_mean(runs: Path) -> None:
    trace = runs / "weights" / "trace"
    for part in range(ROUNDS):
        messages, rounds = table(trace, "observed/messages", part), table(trace, "observed/rounds", part)
        assert sorted(floats(messages, "count")) == [number / 5 for number in range(1, CLIENTS + 1)]
        sent = floats(messages, "array-0").reshape(CLIENTS, -1)
        mean = np.average(sent, axis=0, weights=floats(messages, "count"))
        np.testing.assert_allclose(floats(rounds, "aggregate")[0], mean, rtol=1e-5, atol=1e-7)
        assert "facts" not in rounds


@pytest.mark.parametrize(
    ("name", "expected"),
    [("trace", "failed"), ("trace-told", "failed"), ("silent", "late"), ("silent-told", "late")],
)
def test_a_federation_in_which_nobody_answers_is_recorded_as_such(
    runs: Path, name: str, expected: str
) -> None:
    trace = runs / "nobody" / name
    assert validate(trace) == []
    assert [record.n_messages for record in Trace.open(trace).rounds()] == [0] * ROUNDS
    for part in range(ROUNDS):
        assert list(outcomes(trace, part).values()) == [expected] * CLIENTS


def test_rounds_in_which_nobody_answers_are_recorded_before_others(runs: Path) -> None:
    trace = runs / "nobody" / "recovers"
    assert validate(trace) == []
    found = [record.n_messages for record in Trace.open(trace).rounds()]
    assert found == [0] * (ROUNDS - 1) + [CLIENTS]


def test_the_model_of_a_second_training_is_no_aggregate_of_the_first(runs: Path) -> None:
    trace = runs / "twice" / "trace"
    for part in range(4):
        aggregate = floats(table(trace, "observed/rounds", part), "aggregate")
        assert np.all(np.isnan(aggregate)) == (part in (1, 3))
        assert "facts" not in table(trace, "observed/rounds", part)
