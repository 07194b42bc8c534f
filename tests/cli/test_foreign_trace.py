"""A trace that another system wrote with `TraceWriter`: no Spec, no data set, no truth."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import foltr_audit as fa
from tests.fixtures.command import refusal, run
from tests.fixtures.result_rows import plain

MESSAGES, LENGTH, FEATURES = 30, 10, 16


def _header(*, has_truth: bool) -> fa.TraceHeader:
    return fa.TraceHeader(
        kind="update",
        dtype="float64",
        parameters=FEATURES,
        k=LENGTH,
        dataset=fa.TraceDataset(
            source="a search engine", fold=0, fingerprint="", normalised="none", parts=("live",)
        ),
        has_truth=has_truth,
        embeds_features=True,
    )


def _round() -> tuple[fa.RoundRecord, fa.RoundTruth]:
    """Updates that are sums of clicked rows minus sums of the others: what any pairwise learner sends."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(MESSAGES, LENGTH, FEATURES)).astype(np.float32)
    clicks = rng.random((MESSAGES, LENGTH)) < 0.3
    weights = np.where(clicks, 1.0, -0.5)
    updates = (features * weights[..., np.newaxis]).sum(axis=1).astype(np.float64)
    record = fa.RoundRecord(
        round=0,
        parameters=np.zeros(FEATURES),
        aggregate=updates.mean(axis=0),
        shares=MESSAGES,
        survivors=np.ones(MESSAGES, dtype=np.bool_),
        counts=np.ones(MESSAGES, dtype=np.int64),
        messages=updates,
        slot=np.arange(MESSAGES),
        step=np.zeros(MESSAGES, dtype=np.int64),
        part=np.zeros(MESSAGES, dtype=np.int64),
        query=np.arange(MESSAGES),
        shown=np.tile(np.arange(LENGTH), (MESSAGES, 1)),
        features=features,
    )
    truth = fa.RoundTruth(
        clients=np.arange(MESSAGES),
        updates=updates,
        clicks=clicks,
        clipped=np.zeros(MESSAGES, dtype=np.bool_),
    )
    return record, truth


def test_guesses_on_a_foreign_trace_are_its_clicks(tmp_path: Path) -> None:
    record, truth = _round()
    with fa.TraceWriter(tmp_path / "live", _header(has_truth=False)) as writer:
        writer.write(record)
    assert run("trace", "validate", tmp_path / "live").code == 0
    assert "no truth" in refusal("attack", "--trace", tmp_path / "live")
    done = run("attack", "--trace", tmp_path / "live", "--guesses", tmp_path / "guesses.parquet")
    assert done.code == 0
    frame = pl.read_parquet(tmp_path / "guesses.parquet").filter(method="olsr").sort("slot", "rank")
    np.testing.assert_array_equal(frame["guess"].to_numpy().reshape(MESSAGES, LENGTH), truth.clicks)


def test_a_foreign_trace_with_truth_is_scored(tmp_path: Path) -> None:
    record, truth = _round()
    with fa.TraceWriter(tmp_path / "live", _header(has_truth=True)) as writer:
        writer.write(record, truth)
    report = fa.attack_trace(tmp_path / "live", ["olsr"])
    row = next(row for row in plain(report.results) if row["method"] == "olsr")
    assert row["exact"] == 1.0
    assert row["auc"] == 1.0
    assert row["lists"] == int(truth.clicks.any(axis=1).sum())
    assert report.to_frame().height == len(report.results)


def test_an_attack_says_why_it_cannot_run(tmp_path: Path) -> None:
    record, _ = _round()
    with fa.TraceWriter(tmp_path / "live", _header(has_truth=False)) as writer:
        writer.write(record)
    with pytest.raises(fa.FoltrAuditError, match="no truth"):
        fa.attack_trace(tmp_path / "live")


def _not_checked_at_writing() -> fa.TraceHeader:
    """A header as another writer may make it: this one takes rounds of Runs as they are."""
    return dataclasses.replace(_header(has_truth=True), spec_hash="00")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_message_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    record, truth = _round()
    messages = np.array(record.messages, dtype=np.float64)
    messages[3, 2] = value
    broken = dataclasses.replace(record, messages=messages)
    with fa.TraceWriter(tmp_path / "live", _not_checked_at_writing()) as writer:
        writer.write(broken, truth)
    assert "not finite" in refusal("attack", "--trace", tmp_path / "live", code=3)
    writer = fa.TraceWriter(tmp_path / "other", _header(has_truth=True))
    with pytest.raises(fa.FoltrAuditError, match="round 0: messages hold a value that is not finite"):
        writer.write(broken, truth)


def test_messages_near_the_end_of_the_range_crash_nothing(tmp_path: Path) -> None:
    record, truth = _round()
    broken = dataclasses.replace(record, messages=np.full_like(record.messages, 1.7e308))
    with fa.TraceWriter(tmp_path / "live", _not_checked_at_writing()) as writer:
        writer.write(broken, truth)
    done = run("attack", "--trace", tmp_path / "live", "--method", "all")
    assert done.code in (0, 2)
    assert "Traceback" not in done.err


def test_features_that_do_not_fit_a_linear_model_are_refused(tmp_path: Path) -> None:
    record, truth = _round()
    features = np.array(record.features)[..., :-1]
    with fa.TraceWriter(tmp_path / "live", _header(has_truth=True)) as writer:
        writer.write(dataclasses.replace(record, features=features), truth)
    assert "15 features" in refusal("attack", "--trace", tmp_path / "live", code=3)


def test_odd_knowledge_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer may have checked nothing."""
    monkeypatch.setattr("foltr_audit.trace.writer.fact_problems", lambda header: [])
    record, truth = _round()
    header = dataclasses.replace(
        _header(has_truth=True),
        knowledge={"clip_norm": 1.0, "clip_ord": float("inf"), "defense": "home-made"},
    )
    with fa.TraceWriter(tmp_path / "live", header) as writer:
        writer.write(record, truth)
    assert run("attack", "--trace", tmp_path / "live").code == 0


def test_what_another_system_does_not_say_is_not_made_up(tmp_path: Path) -> None:
    """No fingerprint, learner or PDGD setting, and no share of clipped steps where no clip is declared."""
    record, truth = _round()
    with fa.TraceWriter(tmp_path / "live", _header(has_truth=True)) as writer:
        writer.write(record, truth)
    shown = run("attack", "--trace", tmp_path / "live", "--method", "olsr", "--full").out
    assert shown.splitlines()[0] == "data a search engine (16 features, not normalised), seed 1"
    assert "clipped" not in shown
    report = run("attack", "--trace", tmp_path / "live", "--method", "olsr", "--json").json()
    assert {row["clipped"] for row in report["results"]} == {None}
    known = dataclasses.replace(_header(has_truth=True), knowledge={"clip_norm": 1.0})
    with fa.TraceWriter(tmp_path / "clips", known) as writer:
        writer.write(record, truth)
    assert "0.0 % of the steps clipped" in " ".join(
        run("attack", "--trace", tmp_path / "clips", "--method", "olsr", "--full").out.split()
    )


@pytest.mark.parametrize("stated", [None, "other", "foltr-audit"])
def test_an_order_follows_from_seeds_only_by_the_generator_that_drew(
    tmp_path: Path, stated: str | None
) -> None:
    """Of another generator the same seed says nothing: lists would be sorted by noise that nobody added."""
    rng, n = np.random.default_rng(0), 12
    features = rng.normal(size=(n, LENGTH, FEATURES))
    clicks = rng.random((n, LENGTH)) < 0.3
    facts: dict[str, Any] = {
        "width": 1, "sigma": 0.5, "metric": "maxrr", "antithetic": False, "lists": "deterministic",
        "interactions": 1, "noise": "none",
    }  # fmt: skip
    if stated is not None:
        facts["perturbation"] = stated
    header = dataclasses.replace(_header(has_truth=True), kind="es", knowledge=facts)
    first = np.where(clicks.any(axis=1), clicks.argmax(axis=1) + 1.0, np.inf)
    record = fa.RoundRecord(
        round=0,
        parameters=np.zeros(FEATURES),
        aggregate=np.zeros(FEATURES),
        shares=n,
        survivors=np.ones(n, dtype=np.bool_),
        counts=np.ones(n, dtype=np.int64),
        messages=(1.0 / first)[:, np.newaxis],
        slot=np.arange(n),
        step=np.zeros(n, dtype=np.int64),
        part=np.zeros(n, dtype=np.int64),
        query=np.arange(n),
        shown=np.tile(np.arange(LENGTH), (n, 1)),
        features=features,
        seeds=np.arange(n, dtype=np.uint64),
        state=np.empty(0),
    )
    truth = fa.RoundTruth(
        clients=np.arange(n), updates=np.zeros((n, 1)), clicks=clicks, clipped=np.zeros(n, dtype=np.bool_)
    )
    with fa.TraceWriter(tmp_path / "es", header) as writer:
        writer.write(record, truth)
    hidden = run("attack", "--trace", tmp_path / "es", "--method", "es-first-click", "--hide", "order")
    assert hidden.code == (0 if stated == "foltr-audit" else 2)
    if hidden.code:
        assert "how perturbations follow from seeds (fact perturbation)" in hidden.one_error()
    assert run("attack", "--trace", tmp_path / "es", "--method", "es-first-click").code == 0


def _recorded_on(data: fa.Collection, folder: Path, moved: float = 0.0) -> Path:
    """A trace with the features of a data set, without its fingerprint, as recorders elsewhere write it."""
    record, truth = _round()
    train, n = data.train, record.query.size
    query = np.arange(n) % train.n_queries
    lengths = np.minimum(train.lengths[query], LENGTH)
    shown = np.where(np.arange(LENGTH) < lengths[:, np.newaxis], np.arange(LENGTH), -1)
    features = train.shown_features(query, shown).astype(np.float64)
    features[0, 0, 0] += moved
    size = data.n_features
    dataset = fa.TraceDataset(source="elsewhere", fold=0, fingerprint="", normalised="none", parts=("train",))
    header = dataclasses.replace(
        _header(has_truth=True), parameters=size, dataset=dataset, knowledge={"click_model": "informational"}
    )
    here = dataclasses.replace(
        record,
        parameters=np.zeros(size),
        aggregate=np.zeros(size),
        messages=np.zeros((n, size)),
        query=query,
        shown=shown,
        features=features,
    )
    with fa.TraceWriter(folder, header) as writer:
        writer.write(here, dataclasses.replace(truth, updates=np.zeros((n, size)), clicks=shown == 0))
    return folder


def test_data_are_taken_where_the_features_show_that_they_are_the_trace_s_own(tmp_path: Path) -> None:
    source = "synthetic:mq2007:30"
    data = fa.load_data(source, normalise="none")
    own = run(
        "attack",
        "--trace",
        _recorded_on(data, tmp_path / "own"),
        "--data",
        source,
        "--method",
        "olsr",
        "--json",
    )
    assert not own.code, own.err
    assert {"relevance-prior", "olsr"} <= {row["method"] for row in own.json()["results"]}
    other = _recorded_on(data, tmp_path / "other", moved=1e-3)
    assert "round 0 shows documents with other features than synthetic:mq2007:30" in refusal(
        "attack", "--trace", other, "--data", source, "--method", "olsr", code=3
    )
