"""Rounds of learners that send metrics or clicks, by hand in plain NumPy, and what a trace keeps of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.judge.observer import Observer
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.learners.foltr_es import FOLtRES
from foltr_audit.simulation.recorder import record_rounds, trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import Trace
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.progress import NO_TICK
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES
from tests.simulation.test_federation import same_bytes
from tests.simulation.test_rounds import drawn_list, pdgd

START = np.linspace(-0.4, 0.5, FEATURES)
LEARNERS = ["foltr-es", "pdgd", "pdgd:batch=5", "dbgd", "coltr:candidates=20"]


def draws(setup: Setup, purpose: str, client: int, first: int, size: int) -> Floats:
    """Numbers of a client's stream in round 0."""
    return setup.streams.clients(purpose, 0, np.array([client])).uniform(first + size)[0, first:]


def asked(setup: Setup, clients: int) -> Ints:
    """The queries of round 0, (C, B)."""
    context = setup.context(0, np.arange(clients), setup.learner.interactions, START)
    draws = context.streams("queries").uniform(setup.learner.interactions)
    return np.floor(draws * setup.collection.train.n_queries).astype(np.int64)


def clicked(setup: Setup, labels: Ints, u: Floats) -> Bools:
    """Cascade clicks on a list of grades from its numbers."""
    model = make(ClickModel, setup.spec.train.click_model)
    assert isinstance(model, CascadeClickModel)
    click, stop = model.setting(setup.collection.largest_label)
    clicks, reading = np.zeros(10, dtype=np.bool_), True
    for i, grade in enumerate(labels):
        clicks[i] = reading and u[2 * i] < click[grade]
        reading = reading and not (clicks[i] and u[2 * i + 1] < stop[grade])
    return clicks


def query_of(setup: Setup, query: int | np.int64) -> tuple[Floats, Ints]:
    """Features and grades of a training query."""
    data = setup.collection.train
    rows = slice(data.offsets[query], data.offsets[query + 1])
    return data.features[rows].astype(np.float64), data.labels[rows]


# --- the clicks themselves --------------------------------------------------------------------------


@pytest.mark.parametrize(("pairs", "batch"), [("all", 1), ("last-click+1", 1), ("all", 4), ("all", 15)])
def test_pdgd_steps_after_every_batch(setup_of: SetupOf, pairs: str, batch: int) -> None:
    """The last batch of a round is what is left."""
    learner = f"pdgd:interactions=3,learning_rate=0.4,pairs={pairs},batch="
    with pytest.raises(UsageError, match="batch=16, but a round has 15 interactions; expected at most"):
        Federation(setup_of(learner=f"{learner}16", clients=5))
    setup = setup_of(learner=f"{learner}{batch}", clients=5)
    played = Federation(setup).play(START, 0)
    theta = after = START.copy()
    order = asked(setup, 5).T.reshape(-1)
    for i, query in enumerate(order):
        theta = theta if i % batch else after
        x, labels = query_of(setup, query)
        f = (x * theta).sum(axis=1)
        client, first = (0, i) if batch == 1 else (i, 0)  # one for all steps, or one for each of a batch
        shown = drawn_list(f, draws(setup, "show", client, 10 * first, 10))
        numbers = draws(setup, "clicks/informational", client, 20 * first, 20)
        clicks = clicked(setup, labels[shown], numbers)
        slot, step = i % 5, i // 5
        assert played.sent.interactions.shown[slot, step, : shown.size].tolist() == shown.tolist()
        assert played.sent.interactions.clicks[slot, step].tolist() == clicks.tolist()
        seen = clicks[: shown.size].tolist()
        after = after + 0.4 * pdgd(f[shown], np.delete(f, shown), x[shown], seen, pairs)
    np.testing.assert_allclose(played.aggregate, after, rtol=0, atol=1e-12)
    assert not np.allclose(after, START)


def test_the_server_learns_from_the_clicks_that_it_is_told(setup_of: SetupOf) -> None:
    learner = "pdgd:interactions=1,batch=30,pairs=all"
    setup = setup_of(learner=learner, clients=30, defense=("click-rr:keep=0.7",))
    record, truth = Federation(setup).play(START, 0).recorded()
    told = record.messages.reshape(30, 10) > 0
    assert not np.array_equal(told, truth.clicks)
    assert np.array_equal(truth.updates.reshape(30, 10) > 0, truth.clicks)
    theta = START.copy()
    for row, query in enumerate(record.query):
        x, _ = query_of(setup, query)
        f, shown = (x * START).sum(axis=1), record.shown[row][record.shown[row] >= 0]
        theta += 0.1 * pdgd(f[shown], np.delete(f, shown), x[shown], told[row, : shown.size].tolist(), "all")
    np.testing.assert_allclose(record.aggregate, theta, rtol=0, atol=1e-12)


# --- a seed and metrics -----------------------------------------------------------------------------


@pytest.mark.parametrize("antithetic", [True, False])
@pytest.mark.parametrize("metric", ["maxrr", "dcg"])
def test_a_round_of_foltr_es(setup_of: SetupOf, metric: str, antithetic: bool) -> None:
    learner = f"foltr-es:sigma=0.5,metric={metric},antithetic={str(antithetic).lower()},optimiser=sgd"
    setup = setup_of(learner=learner, clients=6)
    played = Federation(setup).play(START, 0)
    record, truth = played.recorded()
    assert record.seeds is not None
    assert isinstance(setup.learner, FOLtRES)
    queries, gradient = asked(setup, 6), np.zeros(FEATURES)
    for client in range(6):
        noise = setup.learner.perturbations(record.seeds[[client]], FEATURES)[0]
        means = []
        for half in ((0, 1), (2, 3)):
            found = []
            for step in half:
                x, labels = query_of(setup, queries[client, step])
                sign = -1.0 if antithetic and step >= 2 else 1.0
                shown = np.argsort(-(x * (START + sign * noise)).sum(axis=1), kind="stable")[:10]
                clicks = clicked(
                    setup, labels[shown], draws(setup, "clicks/informational", client, 20 * step, 20)
                )
                row = 4 * client + step
                assert truth.clicks[row].tolist() == clicks.tolist()
                places = np.flatnonzero(clicks)
                reciprocal = 1 / (places[0] + 1) if places.size else 0.0
                found.append(reciprocal if metric == "maxrr" else (1 / np.log2(places + 2)).sum())
            means.append(np.mean(found))
        sent = means if antithetic else [np.mean(means)]
        np.testing.assert_allclose(record.messages[client], sent, rtol=1e-15)
        np.testing.assert_array_equal(truth.updates[client], record.messages[client])
        gradient += noise * ((means[0] - means[1]) / 2 if antithetic else np.mean(means)) / 0.25 / 6
    np.testing.assert_allclose(record.aggregate, START + 0.001 * gradient, rtol=0, atol=1e-14)
    assert not np.allclose(gradient, 0)


def test_what_is_sent_is_randomised_and_the_truth_kept(setup_of: SetupOf) -> None:
    given: dict[str, Any] = {"learner": "foltr-es:interactions=2", "clients": 400}
    plain, truth = Federation(setup_of(**given)).play(START, 0).recorded()
    told, same = Federation(setup_of(defense=("metric-rr:p=0.5",), **given)).play(START, 0).recorded()
    np.testing.assert_array_equal(same.updates, truth.updates)
    np.testing.assert_array_equal(plain.seeds, told.seeds)
    kept = (told.messages == plain.messages).mean()
    assert abs(kept - 0.5) < 4 * np.sqrt(0.25 / 800)
    values = np.append(0.0, 1 / np.arange(1, 11))
    assert np.isin(told.messages, values).all()


def test_seeds_differ_between_clients_and_rounds_and_fill_64_bits(setup_of: SetupOf) -> None:
    federation = Federation(setup_of(learner="foltr-es", clients=500))
    seeds = [federation.play(START, number).sent.seeds for number in range(4)]
    every = np.concatenate([found for found in seeds if found is not None])
    assert np.unique(every).size == 2000
    bits = (every[:, np.newaxis] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(2000)


@pytest.mark.parametrize("interactions", [1, 2, 3])
def test_fresh_clients_of_foltr_es(setup_of: SetupOf, interactions: int) -> None:
    attack = {"interactions": interactions, "min_documents": 2, "on": ["test"]}
    setup = setup_of(learner="foltr-es:sigma=0.4", attack=attack)
    protocol = setup.spec.attack
    assert protocol is not None
    clients = FreshClients(setup, protocol)
    record, truth = next(clients.rounds(START, "informational")).recorded()
    clicks = truth.clicks.reshape(-1, interactions, 10)
    first = np.where(clicks, np.arange(1, 11), np.inf).min(axis=2)
    half = (interactions + 1) // 2
    assert np.allclose(record.messages[:, 0], (1 / first[:, :half]).mean(axis=1))
    later = (1 / first[:, half:]).mean(axis=1) if interactions > 1 else 0.0
    assert np.allclose(record.messages[:, 1], later)
    header = trace_header(setup, "informational", record.n_messages, interactions)
    [seen] = Observer(header, setup.collection).views(record)
    assert (seen.view.kind, seen.view.knowledge.sigma, seen.view.knowledge.metric) == ("es", 0.4, "maxrr")
    assert np.array_equal(seen.view.seeds, record.seeds)  # type: ignore[arg-type]


# --- kept and resumed -------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_trace_keeps_rounds_and_goes_on_from_any(setup_of: SetupOf, tmp_path: Path, learner: str) -> None:
    setup = setup_of(learner=learner, rounds=5, clients=6)
    header = trace_header(setup, "informational", 6)
    federation = Federation(setup)
    whole = [played.recorded() for played in federation.rounds(START)]

    def play(first: int, last: GlobalModel | None, until: int = 5) -> Any:
        for played in federation.rounds(START if last is None else last, first):
            if played.context.round == until:
                raise KeyboardInterrupt
            yield played

    folder = tmp_path / "trace"
    small = type(header)(**{**vars(header), "rounds_per_part": 1})
    with pytest.raises(KeyboardInterrupt):
        record_rounds(
            lambda first, last: play(first, last, until=2),
            small, folder, setup.collection, resume=False, keep=False, tick=NO_TICK,
        )  # fmt: skip
    assert Trace.open(folder).n_rounds <= 2, "the last one may not be written yet"
    record_rounds(play, small, folder, setup.collection, resume=True, keep=False, tick=NO_TICK)
    trace = Trace.open(folder)
    for (record, truth), read, known in zip(whole, trace.rounds(), trace.truths(), strict=True):
        same_bytes(record, read)
        same_bytes(truth, known, but=("metrics",))
    state = trace.last_model().state
    assert state is not None
    assert state.tobytes() == whole[-1][0].state.tobytes()  # type: ignore[union-attr]
    assert state.size > 0 or learner in ("pdgd", "pdgd:batch=5", "dbgd")


def test_headers_say_how_wide_messages_are(setup_of: SetupOf) -> None:
    for learner, numbers in (("foltr-es", 2), ("foltr-es:antithetic=false", 1)):
        header = trace_header(setup_of(learner=learner), "perfect", 8)
        assert (header.kind, header.width, header.holds_models) == ("es", numbers, False)
    header = trace_header(setup_of(learner="pdgd:interactions=3"), "perfect", 8)
    assert (header.kind, header.width) == ("clicks", 30)
    assert trace_header(setup_of(), "perfect", 8).width == FEATURES
    refused: tuple[float | None, ...] = (None, 0, True, 1.5)
    for width in refused:
        facts = {name: fact for name, fact in header.knowledge.items() if name != "width"}
        wrong = facts if width is None else {**facts, "width": width}
        with pytest.raises(TraceError, match=r"knowledge\.width is .*, expected a whole number from 1 on"):
            type(header)(**{**vars(header), "knowledge": wrong})
