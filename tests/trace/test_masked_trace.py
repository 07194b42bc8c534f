"""Traces of masked messages: what is written comes back, what an observer reads in it, what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from foltr_audit.recorder.trace_files import PartRange, part_files

from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.judge.observer import Observer, readable
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.recorder import record_rounds, trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import Trace, TraceHeader, TraceWriter, validate
from tests.conftest import SetupOf
from tests.fixtures.foreign_trace import write
from tests.fixtures.tiny import FEATURES
from tests.simulation.test_federation import same_bytes

START = np.linspace(-0.4, 0.5, FEATURES)
SECURE = "secure-aggregation:drop_after=0.25,threshold=0.6"


def rounds_of(setup: Setup, count: int = 6) -> tuple[TraceHeader, list[tuple[RoundRecord, RoundTruth]]]:
    """Some rounds, with and without a sum, and their header."""
    header = trace_header(setup, setup.spec.train.click_model, 8)
    made = [Federation(setup).play(START, number).recorded() for number in range(count)]
    assert {record.total is None for record, _ in made} == {True, False}
    return replace(header, rounds_per_part=4), made


@pytest.mark.parametrize("message", ["model", "update"])
def test_rounds_come_back(message: str, setup_of: SetupOf, tmp_path: Path) -> None:
    header, made = rounds_of(setup_of(defense=(SECURE,), message=message, dtype="float32"))
    assert (header.kind, header.dtype, header.content) == ("masked", "uint64", message)
    write(tmp_path, header, made)
    assert validate(tmp_path) == []
    trace = Trace.open(tmp_path)
    assert trace.header == header
    assert trace.header.encoding == header.encoding
    for (record, truth), found, told in zip(made, trace.rounds(), trace.truths(), strict=True):
        same_bytes(record, found)
        same_bytes(truth, told, but={"metrics"})
        assert (found.total is None) == bool(found.aborted)


def test_a_recorded_run_is_that_trace(setup_of: SetupOf, tmp_path: Path) -> None:
    setup = setup_of(defense=(SECURE,), rounds=3)
    header = trace_header(setup, "informational", 8)

    def play(first: int, last: Any) -> Any:
        return Federation(setup).rounds(START if last is None else last, first)

    record = partial(
        record_rounds, play, header, collection=setup.collection, resume=False, keep=True, tick=Mock()
    )
    kept, disk, rare = record(None), record(tmp_path / "one"), record(tmp_path / "two", every=2)
    for mine, other in zip(kept.rounds(), disk.rounds(), strict=True):
        same_bytes(mine, other)
    sizes = [record.n_messages for record in rare.rounds()]
    assert sizes == [8, 0, 8]
    totals = zip(rare.rounds(), disk.rounds(), strict=True)
    assert all((a.total is None) == (b.total is None) for a, b in totals), "the sum is there in each round"


def test_the_sum_is_that_of_the_updates(setup_of: SetupOf) -> None:
    for message in ("model", "update"):
        header, made = rounds_of(setup_of(defense=(SECURE,), message=message))
        assert header.encoding is not None
        for record, truth in made:
            assert (record.total is None) == bool(record.aborted) == (not record.survivors.any())
            if record.total is None:
                continue
            found = header.encoding.decode(record.total)
            sent = truth.updates + (START if message == "model" else 0.0)
            plain = (sent * record.counts[:, np.newaxis])[record.survivors].sum(axis=0)
            np.testing.assert_allclose(found, plain, atol=8 * 2.0**-25)
            mean = found / record.counts[record.survivors].sum()
            change = mean if message == "update" else mean - START
            np.testing.assert_allclose(START + change, record.aggregate, rtol=0, atol=1e-12)


def test_the_individual_view_decodes_by_the_fixed_point(setup_of: SetupOf, collection: Collection) -> None:
    for masks in ("true", "false"):
        setup = setup_of(defense=(f"secure-aggregation:masks={masks}",), learner="fpdgd:interactions=3")
        header = trace_header(setup, "informational", 8)
        record, truth = Federation(setup).play(START, 0).recorded()
        [seen] = Observer(header, collection).views(record)
        assert seen.view.kind == "model"
        assert np.array_equal(seen.view.messages, readable(record, header))
        far = np.abs(seen.view.updates - truth.updates).max(axis=1)
        if masks == "false":
            assert (far < 2.0**-25).all(), "counts divide the sum of three interactions"
        else:
            assert (far > 1000).all()
    assert seen.view.knowledge.number_format == "float32"


def test_headers_say_how_messages_are_encoded(setup_of: SetupOf) -> None:
    header = trace_header(setup_of(defense=("secure-aggregation",)), "informational", 8)
    facts = header.knowledge
    assert [facts[name] for name in ("of", "bits", "fraction", "range")] == ["model", 48, 24, 64.0]
    wrong: tuple[tuple[str, Any, str], ...] = (
        ("of", "es", "knowledge.of is 'es', expected model or update"),
        ("bits", 4, "bits 4; expected 16 to 64"),
        ("bits", True, "knowledge.bits is True, expected a whole number"),
        ("bits", None, "knowledge.bits is None"),
        ("fraction", 1.5, "knowledge.fraction is 1.5"),
        ("range", "wide", "knowledge.range is 'wide', expected a number"),
    )
    for name, value, expected in wrong:
        with pytest.raises(TraceError, match=f"^trace: header: .*{expected}"):
            replace(header, knowledge={**facts, name: value})
    with pytest.raises(TraceError, match="dtype is 'float32', expected uint64 of kind masked"):
        replace(header, dtype="float32")
    with pytest.raises(TraceError, match=r"dtype is 'uint64', expected float16 or .* float64 of kind model"):
        replace(header, kind="model")


def test_rounds_that_do_not_fit_are_refused(setup_of: SetupOf, tmp_path: Path) -> None:
    setup = setup_of(defense=("secure-aggregation:bits=40",))
    header = trace_header(setup, "informational", 8)
    record, truth = Federation(setup).play(START, 0).recorded()
    large = record.messages.astype(np.uint64)
    large[3, 2] = 2**40
    with TraceWriter(tmp_path / "a", header) as writer, pytest.raises(UsageError, match="one below 2\\^40"):
        writer.write(replace(record, messages=large), truth)
    bare = replace(record, messages=truth.updates, total=None)
    with TraceWriter(tmp_path / "b", header) as writer, pytest.raises(UsageError, match="expected uint64"):
        writer.write(bare, truth)
    with pytest.raises(UsageError, match="a secure sum of messages that are float64"):
        replace(record, messages=truth.updates)
    with pytest.raises(UsageError, match="total has shape"):
        replace(record, total=np.zeros(2, dtype=np.uint64))


def test_a_sum_of_another_length_is_damage(
    setup_of: SetupOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, made = rounds_of(setup_of(defense=(SECURE,)))
    trace = Trace.open(write(tmp_path, header, made))
    rounds = trace.columns(trace.parts[0], "observed/rounds")
    columns = {**rounds, "total": rounds["total"][:, :2]}
    [data, _] = part_files(PartRange("id", 0, 0, 3), {"observed/rounds": columns}).values()
    monkeypatch.setattr(Trace, "content", lambda *_: data)
    with pytest.raises(TraceError, match=r"column total is uint64 of shape \(4, 2\), expected uint64"):
        trace.columns(trace.parts[0], "observed/rounds")
