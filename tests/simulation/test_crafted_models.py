"""A server that sends all clients a model of trap weights, and what an update then shows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.plugins import FirstLayer, RoundContext, Server
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers.neural import NeuralRanker
from foltr_audit.core.records import Dataset
from foltr_audit.data.load import load_collection
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.experiments.stages import first_model
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.rounds import RoundResult
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats

UNITS = 12


def spec(server: str, *defense: str, ranker: str = f"neural:hidden={UNITS}", **more: object) -> fa.Spec:
    return fa.Spec(
        data={"source": "synthetic:mq2007:20"},
        population={"clients": 4},
        train={
            "rounds": 4,
            "server": server,
            "ranker": ranker,
            "learner": "fpdgd:interactions=1,pairs=all,normaliser=shown",
            "click_model": "informational",
        },
        defense=list(defense) or ["none"],
        trace={"message": "update", "dtype": "float64"},
        **more,
    )


def setup_of(server: str, *defense: str) -> Setup:
    made = spec(server, *defense)
    return Setup(made, load_collection(made.data, made.seed))


def rounds(server: str, *defense: str) -> list[RoundResult]:
    setup = setup_of(server, *defense)
    return list(Federation(setup).rounds(first_model(setup)))


@cache
def sent(weights: str, round_: int = 0) -> tuple[Floats, Floats, Floats, Dataset]:
    """First layer (units, d), biases and output weights of a crafted model, and the documents."""
    setup = setup_of(f"trap-weights:weights={weights}")
    data = setup.collection.train
    own = setup.context(round_, np.arange(4), 1, first_model(setup))
    model = setup.received(own, data).parameters
    d = data.n_features
    return model[: UNITS * d].reshape(UNITS, d), model[-2 * UNITS : -UNITS], model[-UNITS:], data


def test_each_document_lies_between_two_neighbours_and_bins_are_of_equal_size() -> None:
    weights, biases, after, data = sent("known")
    documents = np.unique(data.features.astype(np.float64), axis=0)
    counts = np.zeros(UNITS, dtype=np.int64)
    for document in documents:
        on = [float(w @ document) + float(b) > 0 for w, b in zip(weights, biases, strict=True)]
        assert on == sorted(on, reverse=True)  # the units before a threshold, and no other
        counts[sum(on) - 1] += 1
    assert counts.sum() == len(documents)
    assert counts.min() > 0
    assert counts.max() - counts.min() <= 1
    assert np.ptp(after) == 0


def test_half_of_the_weights_of_a_random_trap_are_negative_and_the_others_smaller() -> None:
    weights, biases, _, data = sent("random")
    half = data.n_features // 2
    for row in weights:
        low, high = np.sort(row[row < 0]), np.sort(row[row > 0])
        assert low.size == high.size == half
        assert np.allclose(high, -0.6 * low[::-1])
    assert not biases.any()
    # Features that are not negative: the mean of a sum is below 0, and most documents activate few units.
    rng = np.random.default_rng(1)
    assert (rng.random((500, data.n_features)) @ weights.T > 0).mean() < 0.45


def test_a_difference_of_units_is_the_documents_of_a_bin_times_their_weights() -> None:
    """By central differences of the loss that PDGD climbs, sum of coefficient times score."""
    weights, biases, after, data = sent("known")
    ranker = NeuralRanker(data.n_features, UNITS)
    model = np.concatenate([weights.ravel(), biases, after])
    rng = np.random.default_rng(3)
    documents = data.features[rng.choice(data.n_documents, 5, replace=False)].astype(np.float64)
    coefficients = np.array([0.4, -0.1, -0.2, 0.3, -0.4])
    places = (documents @ weights.T + biases > 0).sum(axis=1) - 1

    def climbed(at: Floats) -> float:
        return float(coefficients @ ranker.score(at, documents))

    d, step = data.n_features, 1e-7
    for unit in np.unique(places):
        gradient = np.zeros((2, d))
        for row, number in enumerate((unit, unit + 1)):
            for column in range(d if number < UNITS else 0):
                move = np.zeros(model.size)
                move[number * d + column] = step
                gradient[row, column] = (climbed(model + move) - climbed(model - move)) / (2 * step)
        inside = places == unit
        expected = coefficients[inside] @ documents[inside]
        assert np.allclose((gradient[0] - gradient[1]) / after[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weights", ["known", "random"])
def test_everybody_receives_the_model_and_the_server_keeps_its_own(weights: str) -> None:
    start = first_model(setup_of("honest"))
    for played in rounds(f"trap-weights:weights={weights}"):
        record, _ = played.recorded()
        assert played.sent.broadcast is None
        assert not np.array_equal(record.parameters, start)
        assert np.array_equal(record.aggregate, start)
        assert np.abs(np.asarray(record.messages)).max() > 0


def test_rounds_between_are_those_of_an_honest_server() -> None:
    honest, other = rounds("honest"), rounds("trap-weights:every=2")
    assert np.array_equal(honest[0].aggregate, other[0].aggregate)
    assert np.array_equal(other[0].aggregate, other[1].aggregate)
    assert np.array_equal(other[2].context.parameters, other[1].aggregate)
    assert not np.array_equal(other[3].context.parameters, other[2].aggregate)


def test_each_round_has_its_own_direction_and_the_same_seed_the_same() -> None:
    assert not np.array_equal(sent("known")[0], sent("known", 1)[0])
    again = rounds("trap-weights")[0].context.parameters
    assert np.array_equal(again, rounds("trap-weights")[0].context.parameters)


def test_neither_a_guard_nor_bound_masks_notice() -> None:
    for played in rounds("trap-weights", "guard:max_norm=1", "secure-aggregation:bind=true"):
        assert played.sent.wired.survivors.all()
        assert not played.sent.wired.aborted


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"ranker": "linear"}, "expected --ranker neural:hidden=H with one hidden layer"),
        ({"ranker": "neural:hidden=3,layers=2"}, "with one hidden layer"),
        ({"audit": {}}, "an audit knows honest models only"),
        ({"membership": {}}, "know honest servers"),
        (
            {"attack": {"methods": ["olsr"], "target": "training", "view": "client"}},
            "expected another --view than client",
        ),
    ],
)
def test_what_does_not_fit_is_refused(more: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        spec("trap-weights", **more)  # type: ignore[arg-type]


def test_fresh_clients_receive_the_model_too() -> None:
    made = spec("trap-weights:every=1000", attack={"methods": ["map"], "click_models": ["informational"]})
    (found,) = (row.found.exact.value for row in fa.attack(made).results if row.method == "map")
    assert found >= 0.9


class Odd(Server):
    """Sends a model of another size, or one with an infinite number."""

    name = "odd"
    size: int = 3

    def crafted_model(self, context: RoundContext, data: Dataset, layer: FirstLayer) -> Floats:
        return np.full(self.size, np.inf)


def test_a_model_that_is_none_is_refused() -> None:
    setup = setup_of("honest")
    start = first_model(setup)
    context = setup.context(0, np.arange(4), 1, start)
    for size, what in ((3, "shape"), (start.size, "not finite")):
        changed = replace(setup)
        vars(changed)["server"] = Odd(size=size)
        with pytest.raises(PluginError, match=what):
            changed.received(context, setup.collection.train)


def test_its_parameters_have_a_text() -> None:
    assert make(Server, "trap-weights:every=5").label == "trap-weights:every=5"
