"""`foltr-audit trace lint` on traces, Runs and folders of Runs, and `audit --no-trials`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import foltr_audit as fa
from tests.fixtures import foreign_trace, lint_traces
from tests.fixtures.command import SMALL, answer, refusal, run
from tests.fixtures.plugin_packages import Installer
from tests.trace.test_lint import written


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lint") / "run"
    asked = "attack --eps inf --click-model perfect --method first-position --out"
    assert run(asked, folder, *SMALL).code == 0
    return folder


def test_findings_are_those_of_checks_and_the_truth_is_not_used(recorded: Path, tmp_path: Path) -> None:
    done = run("trace lint --json", recorded)
    assert done.code == 1
    report = done.json()
    assert report["clean"] is False
    assert sorted(Path(path).name for path in report["traces"]) == ["perfect", "trace"]
    for trace in report["traces"].values():
        for check in trace["checks"]:
            found = any(finding["check"] == check["name"] for finding in trace["findings"])
            assert (check["state"] == "found") == found
            assert check["state"] != "clean" or (check["reason"], check["not_looked_at"]) == (None, [])
        for finding in trace["findings"]:
            assert finding["check"] in {check["name"] for check in trace["checks"]}
            assert finding["severity"] in ("leak", "note")
    copied = Path(shutil.copytree(recorded, tmp_path / "copied"))
    for truth in copied.rglob("truth"):
        shutil.rmtree(truth)
    without = run("trace lint --json", copied).json()["traces"]
    assert list(without.values()) == list(report["traces"].values())


def test_a_clean_trace_says_what_was_looked_for(tmp_path: Path) -> None:
    header = lint_traces.header_of()
    folder = written(tmp_path / "trace", header, lint_traces.played(header))
    done = run("trace", "lint", folder)
    assert done.code == 0
    assert done.out.rstrip().endswith("no leak found")
    for name in ("clear-metrics", "reused-noise", "weak-noise", "clear-fields"):
        assert f"{name}: ok, nothing found of " in done.out
    assert run("trace", "lint", folder, "--json").json()["clean"] is True


def test_what_was_not_looked_at_stands_in_the_last_line(tmp_path: Path) -> None:
    """A trace of which nothing was held against its law was "no leak found", and no more."""
    header = lint_traces.header_of(defense=["home-made"])
    done = run("trace", "lint", written(tmp_path / "trace", header, lint_traces.played(header)))
    assert done.code == 0
    assert done.out.rstrip().endswith("no leak found; 1 check could not look, 1 looked in part")
    assert "weak-noise: could not look, home-made after laplace:scale=2.5 may change a message" in done.out
    assert "reused-noise: looked in part, nothing found of noise that can be removed" in done.out


FOREIGN = """
from dataclasses import replace

import numpy as np

from foltr_audit.privacy.noise import GammaShare
from foltr_audit.core.plugins import Defense


class ByOthers(Defense):
    name = "by-others"
    fresh: bool = True

    def law(self, context):
        return GammaShare(n=1, scale=2.5)

    def on_message(self, models, context):
        streams = context.streams("noise")
        if not self.fresh:
            streams = replace(streams, round=0)
        return models + self.law(context).sample(streams, models.shape[1])
"""


@pytest.mark.parametrize(("fresh", "code"), [("true", 0), ("false", 1)])
def test_noise_by_other_people_is_held_against_what_it_declares(
    tmp_path: Path, install: Installer, fresh: str, code: int
) -> None:
    """A plug-in that used its noise in every round again ended as "no leak found", exit 0."""
    points = {"foltr_audit.defenses": {"by-others": "by_others:ByOthers"}}
    install(tmp_path, "by-others", points, {"by_others": FOREIGN})
    folder = tmp_path / "run"
    assert run("train", *SMALL, "--defense", f"by-others:fresh={fresh}", "--out", folder).code == 0
    done = run("trace", "lint", folder)
    assert done.code == code, done.out
    if code:
        assert "messages of the same place in successive rounds move too much" in " ".join(done.out.split())
    else:
        assert done.out.rstrip().endswith("no leak found")


def test_an_empty_trace_says_so(tmp_path: Path) -> None:
    done = run("trace", "lint", written(tmp_path / "trace", lint_traces.header_of(), []))
    assert done.code == 0
    assert "nothing to look at" in done.out


def test_what_is_damaged(recorded: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(recorded, tmp_path / "copied"))
    part = copied / "trace" / "observed" / "messages-00000.npz"
    part.write_bytes(part.read_bytes()[:-9])
    assert part.name in refusal("trace", "lint", copied, code=3)


# --- audit --no-trials on what needs Python; tests/golden/systems.console has the rest ------------

DATA = ("--data", "synthetic:mq2007:60")
OF_40 = ("audit --no-trials --clients 40", *DATA)


def test_a_trace_of_another_system(tmp_path: Path) -> None:
    system = foreign_trace.System()
    head = foreign_trace.header(system, has_truth=False, facts={"eps_claimed": 1.2})
    folder = foreign_trace.write(tmp_path / "lab", head, foreign_trace.records(system))
    done = run("audit --no-trials --json", folder)
    assert done.code == 1
    (found,) = (one for one in done.json()["systems"][0]["findings"] if one["check"] == "noise shares")
    assert found["field"] == "knowledge.noise"


def test_the_api_takes_specs() -> None:
    spec = fa.Spec(data={"source": "synthetic:mq2007:60"}, defense=fa.published_chain(eps=1.2))
    report = fa.lint([spec, spec.model_copy(update={"repetition": 1})])
    assert [len(report.systems), report.systems[0]["kind"]] == [1, "Spec"]
    assert report.to_frame().height == 1
    assert fa.lint(spec, data=fa.load_data("synthetic:mq2007:60")).errors == report.errors
    assert fa.lint(spec.table()).errors == report.errors


@pytest.mark.parametrize("arriving", [(), ("--arriving", 40)])
def test_nothing_is_found_in_what_calibrate_proves(arriving: tuple[str | int, ...]) -> None:
    """Every mechanism, with the least noise that accounting proves an epsilon for."""
    asked = "calibrate --target-eps 1 --delta 1e-6 --clients 40 --rank-with global"
    rows = answer(asked, *arriving, *DATA)["results"]
    proven = {row["mechanism"]: row["defense"] for row in rows if row["why_not"] is None}
    assert len(proven) >= 4
    for mechanism, chain in proven.items():
        done = run(*OF_40, "--rank-with", "global", "--defense", "+".join(chain), "--json")
        found = done.json()["systems"][0]["findings"]
        # A real-valued share has to be enough on its own, since it is rounded before the sum.
        wanted = [("noise shares", "warning")] if mechanism == "gaussian-shares" else []
        assert [(one["check"], one["severity"]) for one in found] == wanted
