"""`foltr-audit audit --no-trials`: systems of options, Specs, Runs and traces, with their exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

import foltr_audit as fa
from tests.fixtures import foreign_trace
from tests.fixtures.command import SMALL, answer, refusal, run

DATA = ("--data", "synthetic:mq2007:60")
HONEST = """
clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3
clip:norm=1.5+gaussian:eps=1,delta=1e-5,sensitivity=3
clip:norm=1.5+gaussian:eps=1,delta=1e-5,sensitivity=3,calibration=classical
clip:norm=1.5+gaussian:eps=1,delta=1e-5,sensitivity=3+top-k:k=3
click-rr:eps=1
click-rr:eps=1,debias=true
none
clip:norm=1
clip:norm=1.5+skellam:sigma=9,step=0.0009765625,sensitivity=3,delta=1e-5+secure-aggregation:threshold=40
clip:norm=1.5+discrete-gaussian:sigma=9,step=0.0009765625,sensitivity=3,delta=1e-5+secure-aggregation:threshold=40
""".split()  # noqa: SIM905
OF_40 = ("audit --no-trials --clients 40", *DATA)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("systems") / "run"
    assert run("train", *SMALL, "--eps", 1.2, "--out", folder).code == 0
    return folder


@pytest.mark.parametrize("chain", HONEST)
def test_nothing_is_found_in_proven_chains(chain: str) -> None:
    done = run(*OF_40, "--rank-with", "global", "--defense", chain)
    assert (done.code, done.err) == (0, "")
    assert "nothing found" in done.out
    assert done.out.endswith("0 errors, 0 warnings\n")


def test_nothing_is_found_in_the_proven_chain_of_metrics() -> None:
    learner = "--learner foltr-es:antithetic=false,interactions=1"
    done = answer(f"audit --no-trials {learner} --defense metric-rr:eps=1.2", *DATA)
    assert done["systems"][0]["findings"] == []


def test_the_published_chain() -> None:
    done = run("audit --no-trials --eps 1.2 --rank-with global --json", *DATA)
    assert done.code == 1
    (system,) = done.json()["systems"]
    found = {finding["check"]: finding for finding in system["findings"]}
    assert set(found) == {"sensitivity", "noise shares", "proof"}
    assert found["sensitivity"]["right"] == pytest.approx(3 * 46**0.5)
    proven = {claim["view"]: claim["proven"] for claim in system["claims"]}
    assert proven["aggregate"] == proven["individual"] == "inf"


def test_a_run_a_trace_a_spec_and_the_options_say_the_same(recorded: Path) -> None:
    told = []
    for what in ((*SMALL, "--eps", 1.2), (recorded,), (recorded / "spec.toml",), (recorded / "trace",)):
        (system,) = run("audit --no-trials --json", *what).json()["systems"]
        told.append({finding["check"] for finding in system["findings"]})
    assert told[0] == {"sensitivity", "noise shares", "proof", "lists"}
    assert told == [told[0]] * len(told)


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


@pytest.mark.parametrize(
    ("text", "said"),
    [("[train]\nruonds = 1", "unknown field train.ruonds; did you mean 'rounds'?"), ("no TOML", "not TOML")],
)
def test_a_bad_file_is_one_line_that_names_it(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(text)
    error = refusal("audit --no-trials", path)
    assert error.startswith(f"error: {path}: ")
    assert said in error


def test_what_cannot_be_read_or_combined(recorded: Path, tmp_path: Path) -> None:
    for what in (tmp_path / "nothing.toml", tmp_path):
        assert run("audit --no-trials", what).code == 2
    assert "--eps: not with a path" in refusal("audit --no-trials --eps 1", recorded)
    header = recorded / "trace" / "trace.toml"
    kept = header.read_text()
    header.write_text(kept.replace("schema", "scheme", 1))
    assert run("audit --no-trials", recorded / "trace").code == 3
    header.write_text(kept)


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


def test_a_separation_is_an_option_of_it() -> None:
    """Without one, a client may take part again while the noise of its last round still has an effect."""
    chain = ("--defense", "clip:norm=1.5+correlated-gaussian:sigma=9,bands=4")
    checks = []
    for separation in ((), ("--separation", 4)):
        done = run(*OF_40, "--cohort", 10, *separation, *chain, "--json")
        checks.append([finding["check"] for finding in done.json()["systems"][0]["findings"]])
    assert checks == [["sum noise"], []]


def test_an_error_about_who_takes_part_names_what_is_wrong() -> None:
    error = refusal("audit --no-trials --clients 10 --cohort 4 --separation 3", *DATA)
    assert error.startswith("error: separation=3: cohorts of 4 out of 10 clients")
