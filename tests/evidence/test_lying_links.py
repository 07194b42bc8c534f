"""A ceiling rests on links that do what they declare: a new run and a recorded one test them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foltr_audit as fa
from tests.fixtures.audits import ToyClip, ToyLaplace

WORLD: dict[str, Any] = {
    "data": {"source": "synthetic:mq2007:60"},
    "population": {"clients": 20},
    "train": {"rounds": 2, "click_model": "perfect", "learner": "fpdgd:rank_with=global"},
    "attack": {"methods": ["olsr"], "click_models": ["perfect"], "on": ["test"]},
    "audit": {"trials": 20},
}
LIMITS = {"max_ceiling_auc": 0.8}


@pytest.mark.parametrize(("link", "status"), [("", "holds"), ("half noise", "broken")])
def test_a_link_that_lies_leaves_no_ceiling(link: Any, status: str, tmp_path: Path) -> None:
    clip, laplace = fa.use_plugin(ToyClip), fa.use_plugin(ToyLaplace)
    honest = ["clip:norm=1.5,ord=1", "laplace:eps=1.2,sensitivity=3"]
    chain = [clip, f"{laplace}:broken={link}"] if link else honest
    spec = fa.Spec(**WORLD, defense=chain)
    fresh = fa.check(LIMITS, spec)
    fa.attack({**WORLD, "audit": None, "defense": chain}, out=tmp_path / "run")
    recorded = fa.check(LIMITS, tmp_path / "run")
    for report in (fresh, recorded):
        (outcome,) = report.rows()
        assert outcome["status"] == status, outcome
        assert ("a link does less than it declares" in str(outcome["about"])) == bool(link)
        assert (outcome["value"] == 1.0) == bool(link)
