"""`--learner` on the command line: what it means, what `--eps` means with it, how learners are told apart."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tests.fixtures.command import run

SMALL = ("--data", "synthetic:mq2007:60", "--clients", 20, "--rounds", 2)


def spec_of(tmp_path: Path, *options: object) -> dict[str, Any]:
    """The plan that some options of a command mean."""
    file = tmp_path / "spec.toml"
    done = run(*options, *SMALL, "--save-config", file)
    assert done.code == 0, done.err
    return tomllib.loads(file.read_text())


def test_eps_is_what_the_authors_of_each_learner_publish(tmp_path: Path) -> None:
    plan = spec_of(tmp_path, "train --learner fpdgd --learner foltr-es --eps 1.2 --eps inf")
    chains = [(cell["train"]["learner"].partition(":")[0], cell["defense"]) for cell in plan["cells"]]
    published = ("fpdgd", ["clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3"])
    of_metrics = ("foltr-es", ["metric-rr:eps=1.2"])
    assert chains == [published, ("fpdgd", ["none"]), of_metrics, ("foltr-es", ["none"])]


def test_plain_fpdgd_is_that_of_the_command(tmp_path: Path) -> None:
    attack = ("attack", "--click-model", "perfect")
    for command, pairs in ((attack, "all"), (("train",), "last-click+1")):
        learner = spec_of(tmp_path, *command, "--learner", "fpdgd")["train"]["learner"]
        assert f"pairs={pairs}" in learner
    stated = spec_of(tmp_path, *attack, "--learner", "fpdgd:pairs=last-click+1")["train"]["learner"]
    assert "pairs=last-click+1" in stated


def test_options_change_every_learner(tmp_path: Path) -> None:
    options = "--learner pdgd --learner dbgd --interactions 2 --learning-rate 0.3"
    for cell in spec_of(tmp_path, f"train {options}")["cells"]:
        parameters = cell["train"]["learner"].partition(":")[2].split(",")
        assert {"interactions=2", "learning_rate=0.3"} <= set(parameters)


def test_without_a_method_the_attack_is_one_that_can_read_the_messages(tmp_path: Path) -> None:
    for learner, method in (("foltr-es", "es-first-click"), ("coltr:candidates=5", "seen-clicks")):
        spec = spec_of(tmp_path, "attack --click-model perfect --learner", learner)
        assert "methods" not in spec["attack"]
        out = tmp_path / method
        assert run("train", *SMALL, "--learner", learner, "--out", out).code == 0
        rows = run("attack", "--trace", out, "--json").json()["results"]
        assert method in {row["method"] for row in rows}
        assert {row["pdgd"] for row in rows} == {"none"}
        changed = (out / "spec.toml").read_text().replace("seed = 1", "seed = 2")
        (out / "spec.toml").write_text(changed)
        done = run("attack", "--trace", out)
        assert (done.code, "made by another Spec than" in done.err) == (3, True)


def test_learners_of_one_attack_have_tables_of_their_own() -> None:
    methods = ("--method", "map:prior=relevance", "--method", "es-first-click:prior=relevance")
    learners = ("--learner", "fpdgd", "--learner", "foltr-es")
    options = ("attack", *SMALL, *learners, "--eps", 4.5, *methods, "--click-model", "perfect")
    report = run(*options, "--json").json()
    told = {(row["learner"].partition(":")[0], row["method"]): row for row in report["information"]}
    assert set(told) == {("fpdgd", "map:prior=relevance"), ("foltr-es", "es-first-click:prior=relevance")}
    es, pdgd = (told[key] for key in sorted(told))
    assert 0 < es["bits"] < pdgd["bits"] <= pdgd["entropy"] + 1e-6
    assert es["exact_posterior"]
    assert es["bias_bound"] < 1e-5
    refused = {(row["learner"].partition(":")[0], row["method"]) for row in report["refused"]}
    assert ("fpdgd", "es-first-click:prior=relevance") in refused
