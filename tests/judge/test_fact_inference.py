"""Facts that messages tell by themselves: right where they can be told, and "cannot tell" where not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.records.view import View
from foltr_audit.judge.fact_inference import FactEstimate, infer_facts
from foltr_audit.judge.fact_inference.noise import noise_estimate
from foltr_audit.judge.fact_inference.payload import format_estimate
from foltr_audit.judge.fact_inference.saturated_norms import clip_estimates
from foltr_audit.judge.observer import Observer
from foltr_audit.privacy.noise import GammaShare, parse_law
from foltr_audit.trace import Trace
from foltr_audit.utils.arrays import Floats
from tests.fixtures import foreign_trace
from tests.fixtures.foreign_trace import System

SILENT = dict.fromkeys(("learning_rate", "pairs", "normaliser", "noise", "interactions"))
QUIET = System(clients=40, rounds=3, shares=None, seed=3)
FEW = replace(QUIET, clients=10, rounds=1)


def inferred(folder: Path, system: System, rounds: Any = None, **header: Any) -> dict[str, FactEstimate]:
    """The estimates from a trace whose header says nothing of the learner, by fact."""
    facts = SILENT | {"clip_norm": None, "clip_ord": None, "aggregate": "other"} | header.pop("facts", {})
    head = foreign_trace.header(system, facts=facts, **header)
    written = foreign_trace.write(folder / "t", head, rounds or foreign_trace.records(system))
    trace = Trace.open(written)
    return {one.fact: one for one in infer_facts(trace, Observer(trace.header, None))}


@cache
def without_noise() -> list[Any]:
    return foreign_trace.records(QUIET)


def views(rounds: Any, system: System = QUIET) -> list[View]:
    observer = Observer(foreign_trace.header(system, facts=SILENT), None)
    return [seen.full for record, _ in rounds for seen in observer.views(record)]


def noised(law: str, scale: float) -> list[Any]:
    """The rounds of `QUIET` with dense noise in every number."""
    rng = np.random.default_rng(7)
    draw = rng.normal if law == "normal" else rng.laplace
    return with_updates(lambda updates: updates + draw(scale=scale, size=updates.shape))


def with_updates(change: Callable[[Floats], Floats]) -> list[Any]:
    """The rounds of `QUIET` with other updates."""
    return [(replace(record, messages=change(record.messages)), truth) for record, truth in without_noise()]


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system",
    [
        pytest.param(QUIET, marks=pytest.mark.slow),
        pytest.param(replace(QUIET, pairs="last-click+1", shares=1000), marks=pytest.mark.slow),
        replace(FEW, pairs="last-click+1", learning_rate=0.03),
        replace(FEW, clip=0.3),  # which scales every model
    ],
)
def test_settings_of_pdgd_are_found(system: System, tmp_path: Path) -> None:
    found = inferred(tmp_path, system)
    assert found["learning_rate"].value == pytest.approx(system.learning_rate, rel=1e-3)
    assert found["pairs"].value == system.pairs
    assert found["normaliser"].value == "shown"
    assert found["learning_rate"].sure == "certain"
    assert found["interactions"].value == 1
    assert found["messages"].value == system.clients


def test_another_learner_is_no_pdgd(tmp_path: Path) -> None:
    """Messages that are sums of the shown rows with weights that no clicks explain."""
    rng, rounds = np.random.default_rng(8), []
    for record, truth in foreign_trace.records(FEW):
        weights = rng.normal(size=record.shown.shape)
        messages = np.einsum("ik,ikd->id", weights, np.asarray(record.features))
        rounds.append((replace(record, messages=messages), truth))
    found = inferred(tmp_path, FEW, rounds)
    for name in ("learning_rate", "pairs", "normaliser"):
        assert (found[name].sure, found[name].value) == ("cannot tell", None)


def test_noise_larger_than_the_updates_hides_the_steps(tmp_path: Path) -> None:
    found = inferred(tmp_path, QUIET, noised("laplace", 2.5))
    assert found["learning_rate"].sure == "cannot tell"
    assert "noise is larger" in found["learning_rate"].source
    assert found["noise"].value is not None


# --- noise ----------------------------------------------------------------------------------------


def test_no_noise_is_certain() -> None:
    found = noise_estimate(views(without_noise()))
    assert (found.value, found.sure) == ("none", "certain")
    header = foreign_trace.header(QUIET, facts=SILENT, dtype="float32")
    seen = Observer(header, None)
    rounds = foreign_trace.records(QUIET, dtype="float32")
    rounded = noise_estimate([each.full for record, _ in rounds for each in seen.views(record)])
    assert (rounded.value, rounded.sure) == ("none", "certain")


@pytest.mark.parametrize(("law", "scale"), [("normal", 0.01), ("normal", 1.0), ("laplace", 0.2)])
def test_law_and_scale_of_dense_noise(law: str, scale: float) -> None:
    """Within 10 %, which are nine standard errors of 120 messages of 35 free dimensions."""
    found = noise_estimate(views(noised(law, scale)))
    name, _, number = str(found.value).partition("=")
    assert name == {"normal": "gaussian:sigma", "laplace": "laplace:scale"}[law]
    assert float(number) == pytest.approx(scale, rel=0.1)
    assert found.sure == "likely"
    assert found.agrees(str(found.value))


def uneven(law: str, shape: tuple[int, ...]) -> Floats:
    """Draws of noise that is none of the known laws, or not the same for all numbers."""
    rng = np.random.default_rng(9)
    normal = rng.normal(size=shape)
    draws: dict[str, Floats] = {
        "uniform": rng.uniform(-1.0, 1.0, size=shape),
        "signs": rng.choice([-1.0, 1.0], size=shape),
        "scale of each message": normal * rng.choice([0.1, 1.0], size=(shape[0], 1)),
        "half of the messages": normal * (np.arange(shape[0]) % 2)[:, np.newaxis],
        "one coordinate": normal * (np.arange(shape[1]) == 3),
        "one vector for all": np.tile(normal[0], (shape[0], 1)),
    }
    return draws[law]


@pytest.mark.parametrize(
    "law",
    [
        *("uniform", "signs", "scale of each message"),
        *("half of the messages", "one coordinate", "one vector for all"),
    ],
)
def test_other_noise_is_given_no_law(law: str) -> None:
    found = noise_estimate(views(with_updates(lambda updates: updates + 0.05 * uneven(law, updates.shape))))
    assert (found.sure, found.value) == ("cannot tell", None)
    assert "no known law fits" in found.source or "differs among messages or numbers" in found.source


@pytest.mark.parametrize("shares", [100, 1000])
def test_shares_of_noise_are_counted(shares: int) -> None:
    system = replace(QUIET, shares=shares)
    found = noise_estimate(views(foreign_trace.records(system)))
    law = parse_law(str(found.value))
    assert isinstance(law, GammaShare)
    assert 0.4 * shares < law.n < 2.5 * shares
    assert 0.25 * system.scale < law.scale < 4 * system.scale


def test_nothing_beyond_the_documents_tells_nothing() -> None:
    system = replace(QUIET, lists=5)  # 50 documents, 46 parameters
    found = noise_estimate(views(foreign_trace.records(system)))
    assert (found.sure, found.value) == ("cannot tell", None)
    assert "dimensions beyond their documents" in found.source


# --- clips and formats ----------------------------------------------------------------------------


def test_a_clip_shows_in_norms() -> None:
    system = replace(QUIET, clip=0.3)
    norm, order = clip_estimates(views(foreign_trace.records(system), system))
    assert (norm.fact, norm.value, order.fact, order.value) == ("clip_norm", 0.3, "clip_ord", 2)
    rounds = []
    for record, truth in without_noise():
        size = np.maximum(np.linalg.norm(record.messages, axis=1, keepdims=True), 1e-9)
        rounds.append((replace(record, messages=record.messages * np.minimum(1.0, 0.05 / size)), truth))
    (update,) = clip_estimates(views(rounds))
    assert (update.fact, update.value) == ("update_clip_norm", 0.05)
    (nothing,) = clip_estimates(views(without_noise()))
    assert (nothing.fact, nothing.sure, nothing.value) == ("clip_norm", "cannot tell", None)


def test_equal_norms_of_another_cause_are_no_clip_for_certain() -> None:
    sizes = np.linalg.norm(np.concatenate([record.messages for record, _ in without_noise()]), axis=1)
    middle = float(np.median(sizes))

    def normed(updates: Floats) -> Floats:
        return np.asarray(updates / np.maximum(np.linalg.norm(updates, axis=1, keepdims=True), 1e-9))

    (alike,) = clip_estimates(views(with_updates(normed)))
    assert (alike.fact, alike.value, alike.sure) == ("update_clip_norm", 1.0, "likely")
    (signs,) = clip_estimates(views(with_updates(lambda updates: 0.1 * np.sign(updates))))
    assert (signs.sure, signs.value) == ("cannot tell", None)
    some = np.arange(QUIET.clients) < 6  # whose norm is that of the middle; others have larger ones

    def partly(updates: Floats) -> Floats:
        return np.where(some[:, np.newaxis], middle * normed(updates), updates)

    (below,) = clip_estimates(views(with_updates(partly)))
    assert (below.sure, below.value) == ("cannot tell", None)


def test_numbers_with_few_digits_tell_no_format() -> None:
    records = [record for record, _ in with_updates(lambda updates: 0.125 * np.sign(updates))]
    found = format_estimate(records, "update")
    assert (found.sure, found.value) == ("cannot tell", None)


def test_numbers_that_float32_holds_are_float32() -> None:
    records = [record for record, _ in without_noise()]
    exact = format_estimate(records, "update")
    assert (exact.value, exact.sure) == ("float64", "certain")
    rounded = [replace(one, messages=one.messages.astype(np.float32).astype(np.float64)) for one in records]
    assert format_estimate(rounded, "update").value == "float32"
    local = [np.float64(np.float32(one.parameters + one.messages)) for one in records]
    models = [
        replace(one, parameters=np.float64(np.float32(one.parameters)), messages=made)
        for one, made in zip(records, local, strict=True)
    ]
    differences = [replace(one, messages=one.messages - one.parameters) for one in models]
    assert format_estimate(differences, "update").fact == "number format of models"


def test_messages_that_change_nothing_tell_nothing(tmp_path: Path) -> None:
    found = inferred(tmp_path, QUIET, with_updates(np.zeros_like))
    for name in ("number_format", "clip_norm", "noise", "learning_rate"):
        assert (found[name].sure, found[name].value) == ("cannot tell", None)


def test_masked_messages_and_bare_ones_tell_no_step(tmp_path: Path) -> None:
    rounds = []
    for record, truth in without_noise():
        words = np.zeros(record.messages.shape, dtype=np.uint64)
        rounds.append((replace(record, messages=words, total=words[0]), truth))
    facts = {"of": "update", "bits": 40, "fraction": 30, "range": 50.0}
    found = inferred(tmp_path, QUIET, rounds, kind="masked", dtype="uint64", facts=facts)
    for name in ("clip_norm", "noise", "learning_rate"):
        assert (found[name].sure, found[name].source) == ("cannot tell", "messages are masked")
