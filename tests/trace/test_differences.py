"""Messages and true updates as differences: every bit comes back, and a wrong reconstruction is an error."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foltr_audit.recorder.array_layout import LayoutArray
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import TraceError
from foltr_audit.kernels.messages import steps_between
from foltr_audit.trace import Trace, TraceHeader, TraceWriter, differences, validate
from foltr_audit.trace.differences import after_steps
from tests.fixtures.rounds import round_of
from tests.trace.test_forged_tables import Change, forge, made, without
from tests.trace.test_refusals import HEADER

P = 60
WIDE = replace(HEADER, parameters=P, rounds_per_part=3)


def odd(kind: str, shape: tuple[int, ...], share: float, rng: np.random.Generator) -> NDArray[Any]:
    """Numbers of which a share are any bits: nan, infinities, denormals and -0 among them."""
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-310, 3e38], dtype=kind)
    bits = rng.integers(0, 256, (*shape[:-1], shape[-1] * special.itemsize), dtype=np.uint8).view(kind)
    strange = np.where(rng.random(shape) < 0.5, bits, rng.choice(special, shape))
    return np.where(rng.random(shape) < share, strange, rng.normal(size=shape).astype(kind)).astype(kind)


def a_round(number: int, messages: NDArray[Any], parameters: NDArray[Any]) -> RoundRecord:
    shown = np.tile([2, 0, 1, -1], (len(messages), 1))
    return round_of(messages, shown, round=number, parameters=parameters, shares=1)


def a_truth(updates: NDArray[Any]) -> RoundTruth:
    with np.errstate(all="ignore"):
        wide = updates.astype(np.float64)
    clicks = np.zeros((len(updates), 4), dtype=np.bool_)
    clipped = np.zeros(len(updates), dtype=np.bool_)
    return RoundTruth(clients=np.arange(len(updates)), updates=wide, clicks=clicks, clipped=clipped)


def write(folder: Path, header: TraceHeader, rounds: list[tuple[RoundRecord, RoundTruth]]) -> Path:
    with TraceWriter(folder, header) as writer:
        for record, truth in rounds:
            writer.write(record, truth if header.has_truth else None)
    return folder


def stored(folder: Path, table: str) -> set[str]:
    with np.load(folder / f"{table}-00000.npz", allow_pickle=False) as arrays:
        return set(arrays)


@given(st.sampled_from(["float32", "float64"]), st.integers(0, 10**6))
def test_steps_lead_from_any_number_to_any_other(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    start, end = odd(kind, (1, 7), 0.5, rng), odd(kind, (5, 7), 0.5, rng)
    assert after_steps(start, steps_between(start, end)).tobytes() == end.tobytes()
    plain = rng.normal(size=7).astype(kind)
    assert steps_between(plain, np.nextafter(plain, plain.dtype.type(np.inf))).tolist() == [2] * 7
    assert steps_between(plain, np.nextafter(plain, plain.dtype.type(-np.inf))).tolist() == [1] * 7


LAYOUT = (
    LayoutArray("a", (5, 2), "bfloat16"),
    LayoutArray("n", (3,), "int64"),
    LayoutArray("b", (10,), "float32"),
    LayoutArray("c", (P - 20,), "float32"),
)


@given(
    kind=st.sampled_from(["model", "update"]),
    dtype=st.sampled_from(["float32", "float64"]),
    sizes=st.lists(st.sampled_from([0, 1, 30]), min_size=1, max_size=5),
    share=st.sampled_from([0.0, 0.02, 0.5]),
    near=st.sampled_from([0.0, 1e-3, 1.0]),
    layout=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_every_bit_comes_back(
    kind: str, dtype: str, sizes: list[int], share: float, near: float, layout: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    header = replace(WIDE, kind=kind, dtype=dtype)
    if layout:
        header = replace(header, dtype="float32", layout=LAYOUT)
    rounds = []
    for number, M in enumerate(sizes):
        parameters = odd("float64", (P,), share, rng)
        with np.errstate(all="ignore"):
            updates = odd(header.message_format, (M, P), share, rng)
            sent = parameters * (kind == "model") + updates * rng.choice([1.0, 0.7], (M, 1))
            sent = sent + near * rng.normal(size=(M, P)) * (rng.random((M, P)) < 0.1)
            messages = sent.astype(header.message_format)
        if layout:
            high = messages[:, :10].view(np.uint32) & np.uint32(0xFFFF0000)
            messages[:, :10] = np.where(np.isnan(messages[:, :10]), 0, high.view(np.float32))
        record = a_round(number, messages, parameters)
        if layout:
            record = replace(record, buffers=(rng.integers(0, 9, (M, 3)),))
        rounds.append((record, a_truth(updates if rng.random() < 0.8 else np.full_like(updates, np.nan))))
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(differences, "LEAST_BYTES", rng.choice([1, 10 * P]))
        trace = Trace.open(write(Path(folder) / "trace", header, rounds))
        read = list(zip(trace.rounds(), trace.truths(), strict=True))
    assert len(read) == len(rounds)
    for (record, truth), (found, known) in zip(rounds, read, strict=True):
        assert found.messages.dtype == record.messages.dtype
        assert found.messages.tobytes() == record.messages.tobytes()
        assert found.parameters.tobytes() == record.parameters.tobytes()
        with np.errstate(all="ignore"):
            expected = truth.updates.astype(header.update_format).astype(np.float64)
        np.testing.assert_array_equal(known.updates, expected)
        assert (np.signbit(known.updates) == np.signbit(expected))[~np.isnan(expected)].all()


def simulated(rounds: int = 2, M: int = 200, *, noise: float = 0.0) -> list[tuple[RoundRecord, RoundTruth]]:
    """Rounds of clients that move half of the coordinates, of whom a quarter are clipped at the end."""
    rng = np.random.default_rng(5)
    found = []
    for number in range(rounds):
        parameters = rng.normal(size=P)
        updates = 0.3 * rng.normal(size=(M, P)) * (rng.random((M, P)) < 0.5)
        models = parameters + updates
        models[: M // 4] *= rng.uniform(0.5, 0.9, (M // 4, 1))
        models += noise * rng.laplace(size=(M, P))
        found.append((a_round(number, models.astype(np.float32), parameters), a_truth(updates)))
    return found


def size(folder: Path, table: str) -> float:
    """Bytes of a table for each number of a message."""
    return (folder / f"{table}-00000.npz").stat().st_size / (400 * P)


def test_what_messages_tell_takes_little_room(tmp_path: Path) -> None:
    folder = write(tmp_path / "trace", WIDE, simulated())
    assert {"correction.packed", "scale", "check"} <= stored(folder, "truth/messages")
    assert "from-model-0.packed" in stored(folder, "observed/messages")
    # Three eighths of the numbers did not move. The others take 3.4 bytes.
    assert size(folder, "observed/messages") < 5 / 8 * 3.4 + 1 / 8 + 0.1
    assert size(folder, "truth/messages") < 0.7
    assert validate(folder) == []


def test_updates_that_no_message_tells_are_stored(tmp_path: Path) -> None:
    folder = write(tmp_path / "trace", WIDE, simulated(noise=1.0))
    assert "update.packed" in stored(folder, "truth/messages")
    assert not {"correction.packed", "scale", "check"} & stored(folder, "truth/messages")


def test_few_messages_stay_as_they_are(tmp_path: Path) -> None:
    folder = write(tmp_path / "trace", WIDE, simulated(M=4))
    assert "array-0" in stored(folder, "observed/messages")
    assert "update" in stored(folder, "truth/messages")


@pytest.mark.parametrize("given", [simulated(), simulated(noise=1.0), simulated(M=4)])
def test_arrays_may_change_when_written(tmp_path: Path, given: list[tuple[RoundRecord, RoundTruth]]) -> None:
    undisturbed = write(tmp_path / "undisturbed", WIDE, given)
    with TraceWriter(tmp_path / "changed", WIDE) as writer:
        for record, truth in given:
            messages, updates = record.messages.copy(), truth.updates.copy()
            writer.write(replace(record, messages=messages), replace(truth, updates=updates))
            messages[:] = updates[:] = 7.0
    for path in sorted(undisturbed.rglob("*.npz")):
        assert path.read_bytes() == (tmp_path / "changed" / path.relative_to(undisturbed)).read_bytes()


def test_observed_files_hold_nothing_of_the_truth(tmp_path: Path) -> None:
    with_truth = write(tmp_path / "with", WIDE, simulated())
    without = write(tmp_path / "without", replace(WIDE, has_truth=False), simulated())
    for path in sorted((with_truth / "observed").iterdir()):
        assert path.read_bytes() == (without / "observed" / path.name).read_bytes()
    messages = [record.messages.tobytes() for record in Trace.open(with_truth).rounds()]
    shutil.rmtree(with_truth / "truth")
    assert [record.messages.tobytes() for record in Trace.open(with_truth).rounds()] == messages


def nudged(values: NDArray[Any]) -> NDArray[Any]:
    return values + np.uint32(2)


SEEN, TRUTH, OTHER = "observed/messages", "truth/messages", "updates of round 0 are not those that were"
FORGED: tuple[tuple[str, Change, str], ...] = (
    (TRUTH, made("correction", nudged), OTHER),
    (TRUTH, made("scale", lambda x: x * np.float32(1.5)), OTHER),
    (SEEN, made("from-model-0", nudged), OTHER),
    (
        *(TRUTH, without("check")),
        "columns scale, correction do not go together; expected either update, or all of scale",
    ),
    (
        *(TRUTH, lambda t: {**t, "update": np.zeros((400, P), dtype=np.float32)}),
        "columns scale, correction, check do not go together",
    ),
    (SEEN, without("from-model-0"), "expected one of the columns array-0 and from-model-0"),
)


@pytest.mark.parametrize(("table", "change", "expected"), FORGED)
def test_forged_differences_are_one_error(tmp_path: Path, table: str, change: Change, expected: str) -> None:
    folder = write(tmp_path / "trace", WIDE, simulated())
    forge(folder, table, change)
    [problem] = [line for line in validate(folder) if "do not" in line or expected in line]
    assert expected in problem
    with pytest.raises(TraceError, match=expected):
        list(Trace.open(folder).truths())
