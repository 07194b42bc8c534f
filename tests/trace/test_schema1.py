"""Traces of schema 1, which nothing writes any more: those that its last writer left are read on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import UsageError
from foltr_audit.trace import Trace, TraceDataset, TraceHeader, TraceWriter, info, validate

STORED = Path(__file__).parents[1] / "fixtures" / "schema1"
DATASET = TraceDataset(source="letor", fold=0, fingerprint="00", normalised="none", parts=("train", "vali"))
P, K, M = 2, 3, 3
PLAIN = TraceHeader(
    kind="update",
    dtype="float32",
    parameters=P,
    k=K,
    dataset=DATASET,
    has_truth=True,
    knowledge={"learning_rate": 0.1, "aggregate": "other"},
    embeds_features=True,
    rounds_per_part=2,
)
MASKED = replace(
    PLAIN,
    kind="masked",
    dtype="uint64",
    embeds_features=False,
    rounds_per_part=3,
    spec_hash="00",
    knowledge={"of": "update", "bits": 48, "fraction": 24, "range": 64.0},
)
EVOLVED = replace(
    PLAIN,
    kind="es",
    dtype="float64",
    embeds_features=False,
    rounds_per_part=3,
    spec_hash="00",
    knowledge={"width": 2, "intents": 2},
)


def plain(number: int) -> tuple[RoundRecord, RoundTruth]:
    """Three messages of eighths; the second client shows one list, the third shows two."""
    values = (np.arange(6.0).reshape(M, P) + 10 * number) / 8
    shown = np.array([[4, 2, -1], [0, 1, 2], [-1, -1, -1]])
    features = np.arange(18, dtype=np.float32).reshape(M, K, P) + number
    record = RoundRecord(
        round=number,
        parameters=values[0],
        aggregate=values[2],
        shares=3,
        survivors=np.array([True, True, True]),
        counts=np.array([0, 1, 2]),
        messages=values.astype(np.float32),
        slot=np.array([1, 2, 2]),
        step=np.array([0, 0, 1]),
        part=np.array([0, 1, 0]),
        query=np.array([number, 70_000, 6]),
        shown=shown,
        features=np.where(shown[..., np.newaxis] >= 0, features, 0),
    )
    truth = RoundTruth(
        clients=np.array([2**40, 4, 1]),
        updates=values / 4,
        clicks=shown == 2,
        clipped=np.array([False, True, False]),
        metrics={"maxrr": number / 8, "ndcg": float("nan")},
    )
    return record, truth


def masked(number: int) -> tuple[RoundRecord, RoundTruth]:
    """The same in words modulo 2^48; the second round has no sum."""
    record, truth = plain(number)
    words = np.arange(6, dtype=np.uint64).reshape(M, P) << np.uint64(40)
    total = None if number == 1 else words.sum(axis=0, dtype=np.uint64)
    why = "too few clients" if number == 1 else ""
    return replace(record, messages=words, features=None, total=total, aborted=why), truth


def evolved(number: int) -> tuple[RoundRecord, RoundTruth]:
    """The same with seeds, two metrics a message, a state of four numbers and intents."""
    record, truth = plain(number)
    seeds = np.array([2**64 - 1, 0, 7], dtype=np.uint64)
    record = replace(
        record,
        messages=record.messages.astype(np.float64),
        features=None,
        seeds=seeds,
        state=np.arange(4.0) + number,
    )
    return record, replace(truth, intents=np.array([0, 1, 1]))


ROUNDS = 3
Make = Callable[[int], tuple[RoundRecord, RoundTruth]]
TRACES: dict[str, tuple[TraceHeader, Make]] = {
    "plain": (PLAIN, plain),
    "masked": (MASKED, masked),
    "es": (EVOLVED, evolved),
}


def same(made: RoundRecord | RoundTruth, found: RoundRecord | RoundTruth) -> None:
    """Every field is equal, with its type."""
    for item in fields(made):
        mine, other = getattr(made, item.name), getattr(found, item.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == other.dtype, item.name
            np.testing.assert_array_equal(mine, other, item.name)
        else:
            assert repr(mine) == repr(other), item.name  # NaN equals NaN here


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_of_schema_1_is_read(name: str) -> None:
    header, make = TRACES[name]
    trace = Trace.open(STORED / name)
    assert validate(STORED / name) == []
    assert trace.header == replace(header, schema="foltr-audit/trace/1", writer="")
    assert trace.n_rounds == ROUNDS
    found = zip(trace.rounds(), trace.truths(), trace.metrics(), strict=True)
    for number, (record, truth, metrics) in enumerate(found):
        made, told = make(number)
        same(made, record)
        same(told, truth)
        assert repr(metrics) == repr({"round": number, **told.metrics})
    np.testing.assert_array_equal(trace.last_model().parameters, make(ROUNDS - 1)[0].aggregate)
    assert info(STORED / name)["messages"] == M * ROUNDS


def test_a_trace_of_schema_1_is_not_continued(tmp_path: Path) -> None:
    folder = shutil.copytree(STORED / "plain", tmp_path / "trace")
    with pytest.raises(UsageError, match="cannot resume: schema is 'foltr-audit/trace/1' in the trace"):
        TraceWriter(folder, PLAIN, resume=True)
    with pytest.raises(UsageError, match="schema is foltr-audit/trace/1, expected foltr-audit/trace/2"):
        TraceWriter(tmp_path / "new", Trace.open(folder).header)


def test_the_same_rounds_in_both_schemas(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "new", PLAIN) as writer:
        for number in range(ROUNDS):
            writer.write(*plain(number))
    old, new = Trace.open(STORED / "plain"), Trace.open(tmp_path / "new")
    for a, b in zip(old.rounds(), new.rounds(), strict=True):
        same(a, b)
    for c, d in zip(old.truths(), new.truths(), strict=True):
        same(c, d)
    assert not list((tmp_path / "new").rglob("*.parquet"))
