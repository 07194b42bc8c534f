"""A trace that another system wrote with `TraceWriter`: no Spec, no data set, no truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import foltr_audit as fa
from tests.command import run

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
    refused = run("attack", "--trace", tmp_path / "live")
    assert refused.code == 2
    assert "no truth" in refused.one_error()
    done = run("attack", "--trace", tmp_path / "live", "--guesses", tmp_path / "guesses.parquet")
    assert done.code == 0
    frame = pl.read_parquet(tmp_path / "guesses.parquet").filter(method="olsr").sort("slot", "rank")
    np.testing.assert_array_equal(frame["guess"].to_numpy().reshape(MESSAGES, LENGTH), truth.clicks)


def test_a_foreign_trace_with_truth_is_scored(tmp_path: Path) -> None:
    record, truth = _round()
    with fa.TraceWriter(tmp_path / "live", _header(has_truth=True)) as writer:
        writer.write(record, truth)
    report = fa.attack_trace(tmp_path / "live", ["olsr"])
    row = next(row for row in report.results if row["method"] == "olsr")
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
