"""Attack success by group of clients, against plain loops and figures by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as sk

from foltr_audit.core.records import Collection
from foltr_audit.core.records.population import ONE_GROUP, ClientGroups, Population, Trait, TraitValue
from foltr_audit.core.results import AttackRecord
from foltr_audit.experiments.stages import make_attacks
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.scoring import GROUP_METRICS, group_records
from foltr_audit.report.attack import AttackReport
from foltr_audit.rng import Streams
from tests.conftest import SetupOf
from tests.fixtures.evidence import evidence, influences, plain_ends, random_evidence
from tests.fixtures.judging import judge_clicks
from tests.fixtures.result_rows import KINDS, attacked_clicks, kinds, report_on
from tests.judge.test_clicks import recording_of
from tests.judge.test_scoring import lists_of, sklearn_metrics

SETTING: dict[str, Any] = {"trained_on": "perfect", "eps_claimed": 1.2, "sees": "message and lists"}
SETTING |= dict.fromkeys(("defense", "pdgd"), "none") | {"learner": "fpdgd"}


def trait(name: str, *values: TraitValue) -> Trait:
    return Trait(name=name, values=values)


INTENTS = Population(
    traits=(
        trait("intent", TraitValue(name="intent 1", intent=0), TraitValue(name="intent 2", intent=1)),
        trait(
            "clicks",
            TraitValue(name="perfect clicks", click_model="perfect"),
            TraitValue(name="no clicks", click_model="informational"),
        ),
    )
)
TWO = Population(traits=(trait("t", TraitValue(name="even"), TraitValue(name="odd")),))


def grouped(judged: ClickEvidence, seed: int = 1, n: int = 3) -> ClickEvidence:
    """Lists dealt to some groups at random; lists of one query may be of several."""
    group = np.random.default_rng(seed).integers(0, n, size=judged.query.size)
    return replace(judged, group=group, groups=tuple(f"group {g}" for g in range(n)))


def scores(judged: ClickEvidence) -> dict[str, list[AttackRecord]]:
    """What each method reads in the lists of each group, hit hardest first."""
    found: dict[str, list[AttackRecord]] = {}
    for record in group_records(judged, Streams(1)):
        found.setdefault(record.method, []).append(record)
    return found


# --- the judge ------------------------------------------------------------------------------------


def judged_by(setup_of: SetupOf, data: Collection, groups: ClientGroups, shift: int = 0) -> ClickEvidence:
    """Lists of two rounds of clients, whose numbers are shifted."""
    made = recording_of(setup_of(clients=5, learner="fpdgd:interactions=3"))
    truth = [replace(each, clients=each.clients[::-1] + shift) for each in made.truth]
    attacks, observer = make_attacks(["first-position"]), Observer(made.header, data)
    return judge_clicks(replace(made, truth=truth), observer, attacks, Streams(1), groups=groups)


def test_every_list_knows_the_group_of_its_client(setup_of: SetupOf, collection: Collection) -> None:
    found = judged_by(setup_of, collection, ClientGroups.of(INTENTS), 1_000_000_002)
    clients = np.tile(np.repeat(np.arange(5)[::-1] + 1_000_000_002, 3), 2)
    assert found.groups == INTENTS.groups
    assert found.group.tolist() == (clients % 4).tolist()
    own = [INTENTS.groups[number].split(", ")[0] for number in found.group]
    assert own == [f"intent {i + 1}" for i in INTENTS.own(clients)[0].tolist()]


def test_fresh_clients_click_as_they_are_told_and_differ_in_what_they_want_alone() -> None:
    clients = np.arange(40) + 3 * 10**9
    groups = ClientGroups.of(INTENTS, fresh=True)
    assert groups.names == ("intent 1", "intent 2")
    assert groups.of_clients(clients).tolist() == INTENTS.own(clients)[0].tolist()
    assert ClientGroups.of(Population(traits=INTENTS.traits[1:]), fresh=True).names == ("everybody",)
    every = ClientGroups.of(INTENTS)
    assert every.names == INTENTS.groups
    assert every.of_clients(clients).tolist() == INTENTS.group_of(clients).tolist()
    assert ClientGroups.of(Population()) == ONE_GROUP


def test_without_a_population_all_are_one_group(setup_of: SetupOf, collection: Collection) -> None:
    found = judged_by(setup_of, collection, ONE_GROUP)
    assert found.groups == ("everybody",)
    assert not found.group.any()
    assert not report_of(found).groups


def test_some_lists_keep_their_groups_and_pooled_evidence_goes_by_their_names() -> None:
    one = grouped(random_evidence(1, lists=20))
    other = replace(grouped(random_evidence(2, lists=30), n=2), groups=("group 2", "group 9"))
    assert one.at(np.arange(20) % 2 == 0).group.tolist() == one.group[::2].tolist()
    both = ClickEvidence.combined([one, other])
    names = [piece.groups[number] for piece in (one, other) for number in piece.group]
    assert [both.groups[number] for number in both.group] == names
    assert both.groups == ("group 0", "group 1", "group 2", "group 9")


# --- attack success -------------------------------------------------------------------------------


def slow_metrics(judged: ClickEvidence, lists: NDArray[np.int64]) -> dict[str, float]:
    """Means over some lists with a click, one by one, and the AUC of their documents."""
    some = judged.at(lists)
    here, scores = some.is_document, some.guessed["attack"].scores
    rows = [sklearn_metrics(clicks, guess) for clicks, guess in lists_of(some)]
    found = {name: float(np.nanmean([row[name] for row in rows])) for name in GROUP_METRICS if name != "auc"}
    return {**found, "auc": float(sk.roc_auc_score(some.clicks[here], scores[here]))}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_of_a_group_are_those_of_its_lists_alone(seed: int) -> None:
    judged = grouped(random_evidence(seed, silent=0.2), seed)
    found = scores(judged)["attack"]
    with_click = np.flatnonzero(judged.has_click)
    assert found[0].everybody == pytest.approx(slow_metrics(judged, with_click), rel=1e-12)
    assert {group.group for group in found} == set(judged.groups)
    for group in found:
        number = judged.groups.index(group.group)
        mine = np.flatnonzero(judged.has_click & (judged.group == number))
        slow = slow_metrics(judged, mine)
        told = {name: score.value for name, score in group.metrics.items()}
        assert told == pytest.approx(slow, rel=1e-12)
        skipped = int((judged.group == number).sum()) - mine.size
        queries = len(set(judged.query[mine].tolist()))
        assert group.counts == {"lists": mine.size, "skipped": skipped, "queries": queries}
        for name in GROUP_METRICS:
            assert group.differences[name].value == pytest.approx(slow[name] - group.everybody[name])


def leaking(strength: float, seed: int, lists: int = 200) -> ClickEvidence:
    """Two groups; of the odd lists a score tells the clicks with so much strength, of the even nothing."""
    rng = np.random.default_rng(seed)
    clicks = rng.random((lists, 5)) < 0.4
    clicks[:, 0] |= ~clicks.any(axis=1)
    group = np.arange(lists) % 2
    values = rng.normal(size=clicks.shape) + strength * clicks * group[:, np.newaxis]
    names = [f"q{i}" for i in range(lists)]
    judged = evidence(names, clicks, values > 0, scores=values)
    return replace(judged, group=group, groups=TWO.groups)


def test_a_group_without_a_judged_list_is_last_and_knows_nothing() -> None:
    judged = leaking(1.0, seed=1)
    clicks = judged.clicks & (judged.group == 1)[:, np.newaxis]
    found = scores(replace(judged, clicks=clicks))["attack"]
    assert [group.group for group in found] == ["odd", "even"]
    silent = found[-1]
    assert silent.counts == {"lists": 0, "skipped": 100, "queries": 0}
    for score in (*silent.metrics.values(), *silent.differences.values()):
        assert (np.isnan(score.value), score.ci95) == (True, None)
    rows = kinds(report_of(replace(judged, clicks=clicks)))["groups"]
    (row,) = [row for row in rows if row["method"] == "attack" and row["place"] == 2]
    assert row["auc"] is row["auc_ci95"] is row["f1_difference"] is None


def test_random_guesses_know_the_mean_number_of_clicks_only() -> None:
    judged = grouped(random_evidence(6))
    length, mean = judged.is_document.sum(axis=1), judged.clicks.sum(axis=1).mean()
    low, share = np.floor(mean), mean % 1
    recall = ((1 - share) * np.minimum(low, length) + share * np.minimum(low + 1, length)) / length
    for group in scores(judged)["random:k=mean"]:
        mine = judged.group == judged.groups.index(group.group)
        assert group.metrics["recall"].value == pytest.approx(recall[mine].mean(), rel=1e-12)
        assert group.metrics["auc"].value == 0.5
        assert group.differences["auc"].value == 0.0


# --- rows and tables of attacks -------------------------------------------------------------------


def report_of(judged: ClickEvidence) -> AttackReport:
    return report_on(attacked_clicks(judged, "perfect", **SETTING))


def test_rows_name_group_place_and_all_clients() -> None:
    judged = leaking(2.0, seed=1)
    found = kinds(report_of(judged))
    (result,) = [row for row in found["results"] if row["method"] == "attack"]
    rows = [row for row in found["groups"] if row["method"] == "attack"]
    assert [(row["group"], row["place"], row["lists"]) for row in rows] == [("odd", 1, 100), ("even", 2, 100)]
    baselines = {row["method"]: row["baseline"] for row in found["groups"]}
    assert baselines == {"random:k=mean": True, "attack": False}
    for row in rows:
        for name in (*SETTING, "click_model", "view"):
            assert row[name] == result[name]
        for name in GROUP_METRICS:
            assert row[f"{name}_all"] == pytest.approx(result[name], rel=1e-12)
            assert row[f"{name}_difference"] == pytest.approx(row[name] - result[name])


def test_json_tells_of_groups_only_where_there_are_several() -> None:
    told = json.loads(report_of(leaking(1.0, seed=1)).json())
    assert len(told["groups"]) == 4
    one = json.loads(report_of(random_evidence(1)).json())
    fields = {"schema", "config", "dataset", "utility", "warnings", *KINDS}
    assert set(one) == fields - {"groups", "places", "facts", "promises", "published", "tasks"}


def test_intervals_are_those_of_plain_loops() -> None:
    """By the slope of each metric in the weight of each query; the AUC is scikit-learn's."""
    judged = grouped(random_evidence(4, lists=300))
    names, number = np.unique(judged.query, return_inverse=True)
    here, answer = judged.is_document, judged.guessed["attack"]
    exact = ((answer.guess & here) == judged.clicks).all(axis=1).astype(float)

    def metric_of(name: str, inside: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
        own = weights[number] * inside
        if name == "exact":
            return float((own * exact).sum() / own.sum())
        each = np.broadcast_to(own[:, np.newaxis], here.shape)[here]
        return float(sk.roc_auc_score(judged.clicks[here], answer.scores[here], sample_weight=each))

    everybody = np.ones(exact.size, dtype=bool)
    for group in scores(judged)["attack"]:
        inside = judged.group == judged.groups.index(group.group)
        assert len(set(judged.query[inside])) == names.size
        for name in ("exact", "auc"):
            mine = influences(partial(metric_of, name, inside), names.size)
            every = influences(partial(metric_of, name, everybody), names.size)
            assert group.metrics[name].ci95 == pytest.approx(plain_ends(mine), rel=1e-5)
            apart = plain_ends(mine - every, -1.0)
            assert group.differences[name].ci95 == pytest.approx(apart, rel=1e-5)
