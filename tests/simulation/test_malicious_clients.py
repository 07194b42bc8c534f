"""Malicious clients in federated rounds: who they are, what they send, what stays true, what it costs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from foltr_audit.core.plugins import Poisoning
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.simulation.federation import Federation, RoundResult
from foltr_audit.simulation.setup import Setup
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES


def played(setup: Setup) -> list[RoundResult]:
    return list(Federation(setup).rounds(np.zeros(FEATURES)))


# --- who ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clients", "share", "count"), [(10, 0.3, 3), (100, 0.29, 29), (7, 0.5, 3), (10, 0.1, 1), (3, 0.99, 2)]
)
def test_the_share_of_malicious_clients(clients: int, share: float, count: int, setup_of: SetupOf) -> None:
    found = setup_of(clients=clients, poisoning=f"lie:share={share}").malicious
    assert found is not None
    assert found.ids.size == count == len(set(found.ids.tolist()))
    assert found.among(np.arange(clients)).sum() == count
    assert set(found.ids.tolist()) <= set(range(clients))


def test_who_is_malicious_depends_on_the_seed_and_not_on_what_they_do(setup_of: SetupOf) -> None:
    def ids(name: str, seed: int) -> list[int]:
        found = setup_of(clients=200, poisoning=f"{name}:share=0.3", seed=seed).malicious
        assert found is not None
        return found.ids.tolist()  # type: ignore[no-any-return]

    assert ids("lie", 1) == ids("fang", 1) != ids("lie", 2)
    assert setup_of().malicious is None


# --- what they send -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gradient-reversal", "lie", "min-max", "min-sum", "fang"])
@pytest.mark.parametrize("message", ["model", "update"])
def test_messages_are_poisoned_and_the_truth_is_not(name: str, message: str, setup_of: SetupOf) -> None:
    chain = ("clip:norm=0.05", "gaussian:eps=1.2,delta=1e-05,sensitivity=0.1")
    text = f"{name}:share=0.4"
    honest, attacked = (
        played(setup_of(rounds=1, clients=10, message=message, defense=chain, poisoning=poisoning))[0]
        for poisoning in (None, text)
    )
    context = attacked.context
    malicious = setup_of(clients=10, poisoning=text).malicious
    assert malicious is not None
    who = malicious.among(context.clients)
    assert attacked.sent.updates.tobytes() == honest.sent.updates.tobytes()
    assert attacked.sent.interactions.clicks.tobytes() == honest.sent.interactions.clicks.tobytes()
    mine, theirs = (np.asarray(each.sent.messages, dtype=np.float64) for each in (attacked, honest))
    assert mine[~who].tobytes() == theirs[~who].tobytes()
    assert (mine[who] != theirs[who]).any(axis=1).all()
    # Malicious clients start from their local models, which the noise of the message stage has not touched.
    quiet = played(setup_of(rounds=1, clients=10, message="update", defense=chain[:1]))[0]
    start = np.zeros(FEATURES) if message == "update" else context.parameters
    updates = np.where(who[:, np.newaxis], np.asarray(quiet.sent.messages), theirs - start)
    expected = make(Poisoning, text).on_updates(updates, who, context)
    assert np.allclose(mine - start, expected, rtol=1e-9, atol=1e-12)


def test_reversed_clicks_are_recorded_as_they_were_made(setup_of: SetupOf) -> None:
    setup = setup_of(clients=10, poisoning="reversed-clicks:share=0.4", click_model="perfect")
    assert setup.malicious is not None
    for round_ in played(setup):
        who = setup.malicious.among(round_.context.clients)
        asked, found = round_.asked, round_.sent.interactions
        for c, b in np.ndindex(*asked.queries.shape):
            labels = setup.collection.train.labels[setup.collection.train.offsets[asked.queries[c, b]] :]
            shown = found.shown[c, b][found.shown[c, b] >= 0]
            clicked = found.clicks[c, b][: shown.size]
            always, never = (0, 2) if who[c] else (2, 0)
            assert clicked[labels[shown] == always].all()
            assert not clicked[labels[shown] == never].any()


def test_clicks_on_one_document_alone_promote_it(setup_of: SetupOf) -> None:
    query, document = 8, 7  # the last of its 13 documents at first
    poisoning = f"promotion:share=0.4,query={query},document={document}"
    setup = setup_of(rounds=30, clients=10, poisoning=poisoning)
    data, who = setup.collection.train, setup.malicious
    assert who is not None
    ranks, other = [], 0
    for found in played(setup):
        done, bad = found.sent.interactions, who.among(found.context.clients)
        assert (done.queries[bad] == query).all()
        other += int((done.queries[~bad] != query).sum())
        assert np.array_equal(done.clicks[bad], done.shown[bad] == document)
        scores = data.features[data.offsets[query] : data.offsets[query + 1]] @ found.after.parameters
        falling = np.argsort(-scores, kind="stable")
        ranks.append(found.metrics["promoted_rank"])
        assert falling[int(ranks[-1]) - 1] == document
    assert other > 0
    honest = [found.after.parameters for found in played(setup_of(rounds=30, clients=10))][-1]
    without = who.promoted_rank(data, setup.ranker, honest)["promoted_rank"]
    assert ranks[-1] <= 2 < without


def test_documents_of_the_same_score_share_their_ranks(setup_of: SetupOf) -> None:
    setup = setup_of(clients=10, poisoning="promotion:share=0.4,query=8")
    assert setup.malicious is not None
    found = setup.malicious.promoted_rank(setup.collection.train, setup.ranker, np.zeros(FEATURES))
    assert found == {"promoted_rank": 7.0}  # of 13
    assert "promoted_rank" not in played(setup_of(clients=10, poisoning="lie:share=0.4"))[-1].metrics


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("query=12", "query=12; expected less than the 12 queries of the training split"),
        ("query=8,document=13", "document=13; expected less than the 13 documents of the query"),
    ],
)
def test_a_document_that_is_not_there_is_not_promoted(more: str, message: str, setup_of: SetupOf) -> None:
    with pytest.raises(UsageError, match=re.escape(f"poisoning promotion: {message}")):
        played(setup_of(clients=10, poisoning=f"promotion:share=0.4,{more}"))


# --- the Spec -------------------------------------------------------------------------------------


def test_a_spec_with_poisoning_comes_back_and_one_without_does_not_name_it() -> None:
    spec = Spec(population={"clients": 10, "poisoning": " lie : share = .30 "})
    assert spec.population.poisoning == "lie:share=0.3"
    assert Spec.from_toml(spec.toml) == spec
    assert spec.hash != Spec(population={"clients": 10}).hash
    assert "poisoning" not in Spec().toml
