"""`foltr-audit recommend` from end to end, on very small data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foltr_audit.core.results import AttackRecord, Estimate
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.recommend.recommend import LARGEST_TIE, Recommendation, SearchBudget
from foltr_audit.experiments.recommend.space import PrivacyLimits
from foltr_audit.experiments.run import data_record
from foltr_audit.experiments.runner import Runner
from foltr_audit.privacy.accounting import AccountingContext, SumMembers, upper_bound
from foltr_audit.report.recommend import RecommendReport
from tests.fixtures.command import but, run, words_of
from tests.fixtures.schemas import agrees_with_published

pytestmark = pytest.mark.usefixtures("laws_as_declared")
SMALL = words_of("--data synthetic:mq2007:60 --clients 20 --rounds 2 --jobs 1 --runs 1 --trials 40")
TINY = (*SMALL, "--method", "olsr")


def last_first(_: Workers, work: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
    """What several processes may do: the last piece is done first."""
    yield from [work(piece) for piece in pieces][::-1]


def test_the_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A dozen queries show no loss to be small.
    monkeypatch.setattr("foltr_audit.experiments.recommend.recommend.MOST_LOSS", 1.0)
    asked = "recommend --max-eps 4 --max-attack-auc .8 --candidates 7"
    out = tmp_path / "out"
    done = run(asked, *TINY, "--out", out, "--json", "--save-config", tmp_path / "base.toml")
    found = done.json()
    assert (done.code, done.said) == (0 if found["confirmed"] else 1, "")
    assert json.loads((out / "results.json").read_text()) == found
    assert len(found["candidates"]) == found["search"]["candidates"] == 7
    chosen = found["recommended"]
    kept = [row["ndcg@10_validation"] for row in found["candidates"] if row["auc_ci95"][1] <= 0.8]
    assert max(kept) - LARGEST_TIE < chosen["ndcg@10_validation"] <= max(kept)
    assert chosen["options"] == f"--defense {'+'.join(chosen['defense'])}"
    for path in out.glob("cells/*/spec.toml"):
        spec = Spec.from_toml(path.read_text())
        assert spec.defense == ("none",) or proven(spec) <= 4 * (1 + 1e-9)
    again = run(asked, *TINY, "--out", out, "--resume")
    assert again.code == done.code
    assert found["sentence"] in " ".join(again.out.split())
    assert chosen["options"] in " ".join(again.out.split())
    assert "what accounting refused" in again.out
    alone = run(asked, *TINY, "--out", out, "--resume", "--quiet").out.splitlines()
    assert alone[:2] == [found["sentence"], chosen["options"]]
    monkeypatch.setattr(Workers, "results", last_first)
    same = f"{asked} --runs 1 --trials 40 --jobs 1 --method olsr --json"  # a Spec leaves out no strong attack
    assert run(same, "--config", tmp_path / "base.toml").json() == found
    agrees_with_published(found)


def proven(spec: Spec) -> float:
    setup = Runner().setup(spec)
    clients, parameters = spec.population.cohort_size, setup.ranker.n_parameters
    situation = AccountingContext(
        view="individual",
        unit="interaction",
        parameters=parameters,
        members=SumMembers(cohort=clients),
        delta=1e-5,
    )
    return upper_bound(setup.privacy.events(), situation).epsilon


def test_a_defense_that_breaks_a_limit_on_the_test_part_is_not_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the validation split nothing is said to leak; what is then found on the test split decides."""
    nothing = AttackRecord(
        task="clicks", method="olsr", counts={"queries": 12}, metrics={"auc": Estimate(0.5, (0.4, 0.5))}
    )
    monkeypatch.setattr("foltr_audit.experiments.recommend.recommend.worst_attack", lambda cells: nothing)
    done = run("recommend --max-eps inf --max-attack-auc .6 --candidates 1 --json", *TINY)
    found = done.json()
    assert done.code == 1
    assert found["recommended"]["name"] == "none"
    assert not found["confirmed"]
    said = r"Not confirmed on the test split: the AUC of \w+ is at 95 % confidence at most"
    assert re.search(said, found["sentence"])
    assert found["evidence"]["auc"] > 0.6


def test_where_nothing_can_be_proven_the_sentence_says_so(tmp_path: Path) -> None:
    setup = Runner().setup(Spec(data={"source": "synthetic:mq2007:60"}, population={"clients": 20}))
    found = Recommendation(
        base=setup.spec, limits=PrivacyLimits(max_eps=0.5), effort=SearchBudget(),
        data=data_record(setup.collection), refused=(), judged=(), chosen=None,
    )  # fmt: skip
    folder = ComparisonFolder.create(tmp_path, resume=False, overwrite=False)
    said = RecommendReport.of(found, folder).sentence
    assert said.startswith("No defense is within the limits: for none is an epsilon of at most 0.5 proven")


@pytest.mark.slow
def test_two_processes_recommend_the_same() -> None:
    asked = ("recommend --max-eps 4 --max-attack-auc .8 --candidates 14 --json", *TINY)
    assert run(*asked).json() == run(*but(asked, "--jobs", 2)).json()


def test_who_gets_sums_only_is_attacked_by_nobody() -> None:
    queries = (
        "--data synthetic:mq2007:300 --clients 100 --rounds 5"  # which show that noise in sums costs little
    )
    done = run(f"recommend --max-eps 2 --view aggregate --candidates 4 --json {queries}", *SMALL[6:])
    found = done.json()
    assert (done.code, found["confirmed"]) == (0, True)
    assert found["attacks"] == []
    assert found["evidence"]["auc"] is None
    assert found["evidence"]["eps_proven_aggregate"] <= 2 * (1 + 1e-9)
    assert max(found["recommended"]["ndcg@10_loss_upper"], found["evidence"]["ndcg@10_loss_upper"]) <= 0.05


def test_on_few_queries_nothing_is_shown_to_cost_little_and_the_answer_says_how_many_would() -> None:
    done = run("recommend --max-eps 4 --view aggregate --candidates 2 --json", *SMALL)
    found = done.json()
    assert (done.code, found["recommended"]) == (1, None)
    assert found["search"]["above_loss"] == 2
    row = found["nearest"][0]
    assert row["outcome"] == "cost not known"
    assert row["excess"] == pytest.approx(row["ndcg@10_loss_upper"] - 0.05)
    assert re.search(r"about \d+ validation queries would settle it, instead of 12", found["sentence"])
