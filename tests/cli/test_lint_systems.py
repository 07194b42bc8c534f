"""`foltr-audit audit --no-trials` on what needs Python; `tests/golden/systems.console` has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

import foltr_audit as fa
from tests.fixtures import foreign_trace
from tests.fixtures.command import answer, run

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
