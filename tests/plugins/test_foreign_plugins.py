"""Plug-ins of another package, which no room knows: every command treats them as it treats ours."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.privacy.noise import parse_law
from foltr_audit.rng import Streams
from tests.fixtures.command import SMALL, run
from tests.fixtures.plugin_packages import Installer

THEIRS = '''
"""Logistic noise, a learner with signed steps, and users who click the best document only."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Calibration, ClickModel, Defense, ModelLearner
from foltr_audit.privacy.loss.losses import PureLoss
from foltr_audit.privacy.loss.losses import LossProof
from foltr_audit.privacy.noise import AdditiveNoise


@dataclass(frozen=True, kw_only=True)
class Logistic(AdditiveNoise):
    """The sum of `count` logistic variates of one scale."""

    name: ClassVar[str] = "logistic"

    scale: float
    count: int = 1

    @property
    def variance(self):
        return self.count * (math.pi * self.scale) ** 2 / 3

    def log_density(self, x):
        z = np.minimum(np.abs(np.asarray(x, dtype=np.float64)) / self.scale, 1e300)
        if self.count == 1:
            return -z - 2 * np.log1p(np.exp(-z)) - math.log(self.scale)
        t = np.linspace(0, 12 / math.sqrt(self.count), 1201)[1:]  # the rest is less than 1e-17
        angle = math.pi * t
        waves = (angle / np.sinh(np.minimum(angle, 700))) ** self.count
        near = np.minimum(z, 30 * self.count)
        width = t[1] - t[0]
        density = width * ((np.cos(np.multiply.outer(near, t)) * waves).sum(axis=-1) + 0.5)
        return np.log(np.maximum(density, 1e-300) / (math.pi * self.scale))

    def sample(self, streams, size):
        u = streams.uniform(size * self.count).reshape(-1, size, self.count)
        return self.scale * (np.log(u) - np.log1p(-u)).sum(axis=2)

    def summed(self, count):
        return replace(self, count=self.count * count)

    def worst_loss(self, shifts):
        return np.abs(np.asarray(shifts, dtype=np.float64)) / self.scale

    def proofs(self, hidden):
        how = f"logistic noise of scale {self.scale:.4g} {hidden.where}"
        return (LossProof(PureLoss(hidden.apart.l1 / self.scale), how),)

    def probability_within(self, size):
        return np.tanh(np.abs(np.asarray(size)) / (2 * self.scale)) if self.count == 1 else None


class LogisticNoise(Defense):
    """Each client adds logistic noise to every coordinate.

    Guarantees: eps-DP per round and client for models whose L1 distance is at most `sensitivity`.
    """

    name: ClassVar[str] = "their-logistic"
    calibrated_by: ClassVar[Calibration] = Calibration(falls=True, order=1)

    eps: float = Field(gt=0, description="claimed epsilon")
    sensitivity: float = Field(gt=0, description="largest L1 distance")

    def law(self, context):
        return Logistic(scale=self.sensitivity / self.eps)

    def on_message(self, models, context):
        return models + self.law(context).sample(context.streams("their-logistic"), models.shape[1])

    def claims(self, context):
        return self.claims_for(["individual"], "client", self.eps)

    @classmethod
    def with_noise(cls, number, norm, order, parameters):
        return cls(eps=number, sensitivity=2 * norm * (math.sqrt(parameters) if order == 2 else 1))


class BestOnly(ClickModel):
    """Users who click every document of the best grade."""

    name: ClassVar[str] = "their-best"

    def click(self, labels, largest_label, streams, step):
        return (labels == largest_label) & (labels >= 0)


class MeanOfClicked(ModelLearner):
    """Steps towards the mean features of the clicked documents."""

    name: ClassVar[str] = "their-mean"

    def local_step(self, parameters, data, queries, scores, starts, shown, clicks, ranker):
        from foltr_audit.core.records import Dataset

        moved, after = clicks.any(axis=1), parameters.copy()
        for row in np.flatnonzero(moved):
            places = data.offsets[queries[row]] + shown[row][clicks[row]]
            after[row] += 0.01 * data.features[places].mean(axis=0)
        return after, moved
'''
GROUPS = {
    "foltr_audit.defenses": {"their-logistic": "theirs:LogisticNoise"},
    "foltr_audit.noise_laws": {"logistic": "theirs:Logistic"},
    "foltr_audit.click_models": {"their-best": "theirs:BestOnly"},
    "foltr_audit.learners": {"their-mean": "theirs:MeanOfClicked"},
}
CHAIN = "clip:norm=1.5,ord=1+their-logistic:eps=4,sensitivity=3"


@pytest.fixture(autouse=True)
def _their_package(install: Installer, tmp_path: Path) -> None:
    install(tmp_path / "their-lab", "their-lab", GROUPS, {"theirs": THEIRS})


def test_their_law_is_what_its_density_says() -> None:
    law = parse_law("logistic:scale=2")
    assert law is not None
    x = np.linspace(-80, 80, 4_001)
    for one in (law, law.summed(3)):
        density = np.exp(one.log_density(x))
        assert np.trapezoid(density, x) == pytest.approx(1.0, abs=1e-6)
        assert np.trapezoid(density * x * x, x) == pytest.approx(one.variance, rel=1e-3)
    drawn = law.sample(Streams(1).clients("test", 0, np.arange(2000)), 5)
    assert drawn.var() == pytest.approx(law.variance, rel=0.05)


def test_they_are_listed() -> None:
    for kind, name in (
        ("defenses", "their-logistic"),
        ("learners", "their-mean"),
        ("click-models", "their-best"),
    ):
        assert name in run("list", kind).out


def test_map_knows_their_law_exactly() -> None:
    """With the true prior and law the posterior is exact: then `bits` are bits, and calibration holds."""
    found = run(
        *("attack", *SMALL, "--defense", CHAIN, "--method", "map:prior=relevance", "--method", "olsr"),
        *("--click-model", "perfect", "--json"),
    ).json()
    (row,) = (row for row in found["information"] if row["method"] == "map:prior=relevance")
    assert row["exact_posterior"] is True
    assert not found["refused"]
    results = {row["method"]: row["exact"] for row in found["results"]}
    assert results["map:prior=relevance"] >= results["olsr"]


def test_their_noise_is_calibrated_and_accounted() -> None:
    found = run(
        *("calibrate", "--target-eps", "2", "--unit", "client", "--clients", "40", "--parameters", "46"),
        *("--mechanism", "their-logistic", "--mechanism", "laplace", "--json"),
    ).json()
    theirs, laplace = found["results"]
    assert theirs["defense"] == ["clip:norm=1.5,ord=1", "their-logistic:eps=2,sensitivity=3"]
    assert theirs["eps_upper"] == pytest.approx(laplace["eps_upper"], rel=1e-4)
    ratio = theirs["average_sd"] / laplace["average_sd"]
    assert ratio == pytest.approx(math.pi / math.sqrt(6), rel=1e-3)  # standard deviations of one scale


def test_their_claim_is_audited() -> None:
    audited = run(
        *("audit", *SMALL, "--defense", CHAIN, "--unit", "client", "--view", "individual"),
        *("--canary", "message", "--trials", "1000", "--json"),
    ).json()
    (row,) = audited["results"]
    assert row["verdict"] == "proven"
    assert row["declared"] == "as declared"
    assert row["eps_upper"] == pytest.approx(4.0)
    assert 0 < row["eps_lower"] < row["eps_exact"] <= 4.0 + 1e-9


def test_their_noise_is_compared_and_recommended(tmp_path: Path) -> None:
    compared = run(
        *("compare", *SMALL, "--defense", "none", "--defense", "proven-their-logistic", "--eps", "4"),
        *("--click-model", "perfect", "--no-audit", "--jobs", "1", "--out", tmp_path / "compared", "--json"),
    ).json()
    assert {row["alternative"] for row in compared["results"]} == {"none", "proven-their-logistic"}
    recommended = run(
        *("recommend", *SMALL, "--max-eps", "4", "--candidates", "12", "--runs", "1", "--jobs", "1"),
        *("--out", tmp_path / "recommended", "--json"),
    ).json()
    assert any("proven-their-logistic" in str(row) for row in recommended["candidates"])


def test_their_learner_and_users_train() -> None:
    found = run("train", *SMALL, "--learner", "their-mean", "--click-model", "their-best", "--json").json()
    (row,) = found["results"] if "results" in found else found["utility"]
    assert row["ndcg@10"] > row["ndcg@10_untrained"]
