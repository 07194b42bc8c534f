"""A trace that another system wrote with `TraceWriter`: no Spec, no data set, no truth."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import foltr_audit as fa
from tests.fixtures.command import answer, refusal, run
from tests.fixtures.plain_rounds import plain_round, plain_truth
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


def one_round() -> tuple[fa.RoundRecord, fa.RoundTruth]:
    """Updates that are sums of clicked rows minus sums of the others: what any pairwise learner sends."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(MESSAGES, LENGTH, FEATURES)).astype(np.float32)
    clicks = rng.random((MESSAGES, LENGTH)) < 0.3
    weights = np.where(clicks, 1.0, -0.5)
    updates = (features * weights[..., np.newaxis]).sum(axis=1).astype(np.float64)
    lists: dict[str, Any] = {"query": np.arange(MESSAGES), "shown": np.tile(np.arange(LENGTH), (MESSAGES, 1))}
    mean = updates.mean(axis=0)
    record = plain_round(0, np.zeros(FEATURES), updates, aggregate=mean, features=features, **lists)
    return record, plain_truth(updates, clicks)


def written(folder: Path, record: fa.RoundRecord, truth: fa.RoundTruth | None, **header: Any) -> Path:
    """A trace of one round, with or without truth."""
    head = dataclasses.replace(_header(has_truth=truth is not None), **header)
    with fa.TraceWriter(folder, head) as writer:
        writer.write(record, truth)
    return folder


def test_guesses_on_a_foreign_trace_are_its_clicks(tmp_path: Path) -> None:
    record, truth = one_round()
    live = written(tmp_path / "live", record, None)
    assert run("trace validate", live).code == 0
    assert "no truth" in refusal("attack --trace", live)
    with pytest.raises(fa.FoltrAuditError, match="no truth"):
        fa.attack_trace(live)
    assert run("attack --trace", live, "--guesses", tmp_path / "guesses.parquet").code == 0
    frame = pl.read_parquet(tmp_path / "guesses.parquet").filter(method="olsr").sort("slot", "rank")
    np.testing.assert_array_equal(frame["guess"].to_numpy().reshape(MESSAGES, LENGTH), truth.clicks)


def test_a_foreign_trace_with_truth_is_scored(tmp_path: Path) -> None:
    record, truth = one_round()
    report = fa.attack_trace(written(tmp_path / "live", record, truth), ["olsr"])
    row = next(row for row in plain(report.results) if row["method"] == "olsr")
    assert row["exact"] == 1.0
    assert row["auc"] == 1.0
    assert row["lists"] == int(truth.clicks.any(axis=1).sum())
    assert report.to_frame().height == len(report.results)


NOT_CHECKED = {"spec_hash": "00"}
"""A header as another writer may make it: this one takes rounds of Runs as they are."""


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_message_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    record, truth = one_round()
    messages = np.array(record.messages, dtype=np.float64)
    messages[3, 2] = value
    broken = dataclasses.replace(record, messages=messages)
    live = written(tmp_path / "live", broken, truth, **NOT_CHECKED)
    assert "not finite" in refusal("attack --trace", live, code=3)
    with pytest.raises(fa.FoltrAuditError, match="round 0: messages hold a value that is not finite"):
        written(tmp_path / "other", broken, truth)


def test_messages_near_the_end_of_the_range_crash_nothing(tmp_path: Path) -> None:
    record, truth = one_round()
    broken = dataclasses.replace(record, messages=np.full_like(record.messages, 1.7e308))
    live = written(tmp_path / "live", broken, truth, **NOT_CHECKED)
    done = run("attack --method all --trace", live)
    assert done.code in (0, 2)
    assert "Traceback" not in done.err


def test_features_that_do_not_fit_a_linear_model_are_refused(tmp_path: Path) -> None:
    record, truth = one_round()
    narrow = dataclasses.replace(record, features=np.array(record.features)[..., :-1])
    live = written(tmp_path / "live", narrow, truth)
    assert "15 features" in refusal("attack --trace", live, code=3)


def test_odd_knowledge_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer may have checked nothing."""
    monkeypatch.setattr("foltr_audit.trace.writer.problems_of", lambda *_, **__: [])
    knowledge = {"clip_norm": 1.0, "clip_ord": float("inf"), "defense": "home-made"}
    live = written(tmp_path / "live", *one_round(), knowledge=knowledge)
    assert run("attack --trace", live).code == 0


def test_what_another_system_does_not_say_is_not_made_up(tmp_path: Path) -> None:
    """No fingerprint, learner or PDGD setting, and no share of clipped steps where no clip is declared."""
    record, truth = one_round()
    live = written(tmp_path / "live", record, truth)
    shown = run("attack --method olsr --full --trace", live).out
    assert "data a search engine (16 features, not normalised), seed 1" in shown.splitlines()
    assert "clipped" not in shown
    report = answer("attack --method olsr --trace", live)
    assert {row["clipped"] for row in report["results"]} == {None}
    clips = written(tmp_path / "clips", record, truth, knowledge={"clip_norm": 1.0})
    shown = run("attack --method olsr --full --trace", clips).out
    assert "0.0 % of the steps clipped" in " ".join(shown.split())


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
    first = np.where(clicks.any(axis=1), clicks.argmax(axis=1) + 1.0, np.inf)
    lists: dict[str, Any] = {
        "query": np.arange(n),
        "shown": np.tile(np.arange(LENGTH), (n, 1)),
        "features": features,
    }
    drawn: dict[str, Any] = {"seeds": np.arange(n, dtype=np.uint64), "state": np.empty(0)}
    record = plain_round(0, np.zeros(FEATURES), (1.0 / first)[:, np.newaxis], **lists, **drawn)
    truth = plain_truth(np.zeros((n, 1)), clicks)
    trace = written(tmp_path / "es", record, truth, kind="es", knowledge=facts)
    hidden = run("attack --method es-first-click --hide order --trace", trace)
    assert hidden.code == (0 if stated == "foltr-audit" else 2)
    if hidden.code:
        assert "how perturbations follow from seeds (fact perturbation)" in hidden.one_error()
    assert run("attack --method es-first-click --trace", trace).code == 0


def _recorded_on(data: fa.Collection, folder: Path, moved: float = 0.0) -> Path:
    """A trace with the features of a data set, without its fingerprint, as recorders elsewhere write it."""
    record, truth = one_round()
    train, n = data.train, record.query.size
    query = np.arange(n) % train.n_queries
    lengths = np.minimum(train.lengths[query], LENGTH)
    shown = np.where(np.arange(LENGTH) < lengths[:, np.newaxis], np.arange(LENGTH), -1)
    features = train.shown_features(query, shown).astype(np.float64)
    features[0, 0, 0] += moved
    size = data.n_features
    dataset = fa.TraceDataset(source="elsewhere", fold=0, fingerprint="", normalised="none", parts=("train",))
    here = plain_round(0, np.zeros(size), np.zeros((n, size)), query=query, shown=shown, features=features)
    truth = dataclasses.replace(truth, updates=np.zeros((n, size)), clicks=shown == 0)
    knowledge = {"click_model": "informational"}
    return written(folder, here, truth, parameters=size, dataset=dataset, knowledge=knowledge)


def test_data_are_taken_where_the_features_show_that_they_are_the_trace_s_own(tmp_path: Path) -> None:
    source = "synthetic:mq2007:30"
    data = fa.load_data(source, normalise="none")
    command = f"attack --method olsr --data {source} --trace"
    own = answer(command, _recorded_on(data, tmp_path / "own"))
    assert {"relevance-prior", "olsr"} <= {row["method"] for row in own["results"]}
    error = refusal(command, _recorded_on(data, tmp_path / "other", moved=1e-3), code=3)
    assert f"round 0 shows documents with other features than {source}" in error
