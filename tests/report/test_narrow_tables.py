"""Tables on narrow terminals: what names a row is always whole, and what is left out is said."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import tests.fixtures.check_subjects as checks
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.report import CheckReport, print_check
from foltr_audit.experiments.recommend.limits import PrivacyLimits
from foltr_audit.experiments.recommend.recommend import SearchBudget
from foltr_audit.report.results.recommend import (
    CandidateRow,
    RecommendConfig,
    RecommendReport,
    SearchCounts,
    print_recommend,
)
from foltr_audit.report.tables.columns import NAME_WIDTH, name_lines
from foltr_audit.report.tables.compare import print_compare
from foltr_audit.utils.rows import Estimate
from tests.fixtures.check_subjects import subject
from tests.fixtures.command import SMALL, run
from tests.fixtures.comparisons import checked, claim, report, run_bound, setting, where

LONG = "proven-skellam+secure-aggregation"
LINES = ["proven-skellam +", "secure-aggregation,", "eps 1.2"]
LISTS = (
    "broken",
    "attacks",
    "claims",
    "runners_up",
    "nearest",
    "refused",
    "candidates",
    "failed",
    "warnings",
)
WORLD: dict[str, Any] = {
    "pdgd": "none",
    "ceiling": 0.9,
    "untrained": 0.2,
    "baseline": "relevance-prior",
    "baseline_auc": 0.9,
}


def printed(write: Callable[[Any, Console], None], found: Any, width: int) -> list[str]:
    out = io.StringIO()
    write(found, Console(file=out, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def comparison(width: int) -> list[str]:
    place = where(LONG, 1.2)
    claims = [claim(where("none"), "not refuted"), claim(place, "proven", delta=1e-5)]
    claims += [claim(place, "false by exact loss", exact=3.0, view="aggregate")]
    found = report(setting("none", **WORLD), setting(LONG, 1.2, **WORLD), claims=claims)
    return printed(print_compare, replace(found, config={"spec": {}}, dataset=None), width)


@pytest.mark.parametrize("width", [60, 80, 99, 100])
def test_a_comparison_fits_with_whole_names(width: int) -> None:
    lines = comparison(width)
    assert max(map(len, lines)) <= width
    for part in LINES:
        assert sum(part in line for line in lines) >= (3 if width < 99 else 2)
    text = " ".join(" ".join(lines).split())
    for heading in ("AUC", "precision", "recall", "nDCG@10", "lower bound", "verdict", "proven", "no claim"):
        assert heading in text
    assert "not refuted" not in text
    assert not any(line.lstrip().startswith(",") for line in lines)


def test_what_has_no_room_is_said() -> None:
    text = " ".join(" ".join(comparison(80)).split())
    assert "no room for accuracy, F1" in text
    assert "relevance-prior" in text
    wide = comparison(160)
    assert not any("no room" in line for line in wide)
    assert any("+secure-aggregation, eps 1.2 " in line for line in wide)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (f"{LONG}, eps 1.2", LINES),
        ("proven-laplace, eps 1.2", ["proven-laplace,", "eps 1.2"]),
        ("published, eps 1.2", ["published, eps 1.2"]),
        (
            "clip:norm=3+laplace:eps=1e+06,sensitivity=3.0",
            ["clip:norm=3 +", "laplace:eps=1e+06,", "sensitivity=3.0"],
        ),
    ],
)
def test_names_break_after_their_parts(name: str, lines: list[str]) -> None:
    found = name_lines(name).split("\n")
    assert found == lines
    assert max(map(len, found)) <= NAME_WIDTH


@pytest.mark.parametrize("width", [60, 80])
def test_a_check_keeps_what_is_allowed(width: int) -> None:
    limits = SystemLimits.parse(
        {"max_attack_auc": 0.9, "max_measured_eps": 2.5, "no_refuted_claims": True}, ""
    )
    false = subject(claims=[checks.claim(verdict="false by exact loss")])
    lines = printed(print_check, CheckReport.of(limits, [false], {}), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for words in ("no_refuted_claims", "max_measured_eps", "allowed", "at most 2.5", "none"):
        assert words in text


def recommendation() -> RecommendReport:
    compared = report(setting("none", **WORLD), setting(LONG, 1.2, **WORLD, **checked("proven")))
    without, evidence = compared.results
    chosen = CandidateRow(
        candidate=1,
        name=f"{LONG}, eps 1.2",
        alternative=LONG,
        eps=1.2,
        norm=1.5,
        defense=("x",),
        options="--defense x",
        eps_proven=1.2,
        auc_proven=0.76,
        delta=0.0,
        how="",
        run=run_bound(2.4),
        ndcg=0.4,
        attack="map",
        auc=Estimate(0.7, (0.6, 0.8)),
        queries=20,
        excess=0.0,
        outcome="kept",
        why="",
    )
    counts = ("kept", "above_auc", "refused", "failed", "candidates", "different", "defenses_refused")
    nothing: dict[str, Any] = dict.fromkeys(LISTS, ())
    assert compared.dataset is not None
    return RecommendReport(
        config=RecommendConfig(
            limits=PrivacyLimits(max_eps=4.0, max_auc=0.8, max_proven_auc=0.8),
            effort=SearchBudget(runs=1, trials=40),
            spec=Spec().table(),
        ),
        dataset=compared.dataset,
        confirmed=True,
        sentence="Take it.",
        runner_up="",
        sample="",
        search=SearchCounts(**dict.fromkeys(counts, 1)),
        recommended=chosen,
        evidence=evidence,
        without=without,
        **nothing,
    )


@pytest.mark.parametrize("width", [60, 80])
def test_a_recommendation_keeps_its_name(width: int) -> None:
    lines = printed(print_recommend, recommendation(), width)
    for part in LINES:
        assert sum(line.startswith(part) for line in lines) == 2
    assert any(line.startswith("1 candidate:") for line in lines)


SMALL_RUN = (*SMALL, "--eps", "1.2")


@pytest.mark.parametrize(
    ("command", "width", "kept", "lost"),
    [
        (
            ("audit", "--trials", "40"),
            60,
            ("sees", "claimed", "lower", "verdict", "refuted"),
            "at most, exact",
        ),
        (("train",), 44, ("claimed", "round", "online", "MRR@10"), "offline DCG@10"),
        (("train",), 70, ("trained", "ideal", "defense"), "runs, clipped"),
        (
            (
                "attack",
                "--method",
                "higher-distance:compare=positions,more_than=4",
                "--click-model",
                "perfect",
            ),
            60,
            ("higher-distance:", "compare=positions,", "more_than=4", "random:k=mean", "precision", "AUC"),
            "F1, accuracy",
        ),
    ],
    ids=["audit", "train", "utility", "attack"],
)
def test_a_command_names_what_has_no_room(
    command: tuple[str, ...], width: int, kept: tuple[str, ...], lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = run(*command, *SMALL_RUN, "--full")
    words = done.out.split()
    assert set(kept) <= set(words)
    assert f"no room for {lost}" in " ".join(words)
    assert "…" not in done.out
    assert max(map(len, done.out.splitlines())) <= width
    monkeypatch.setenv("COLUMNS", "160")
    assert "no room" not in run(*command, *SMALL_RUN, "--full").out


def test_significance_keeps_p_and_stars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, rate in (("a", "0.1"), ("b", "0.001")):
        run("train", *SMALL, "--runs", 4, "--learning-rate", rate, "--out", tmp_path / name)
    monkeypatch.setenv("COLUMNS", "60")
    done = run("significance", tmp_path / "a", tmp_path / "b")
    assert done.code == 0
    assert "no room for d_z" in " ".join(done.out.split())
    assert "…" not in done.out
    (row, *_) = [line for line in done.out.splitlines() if line.startswith("1 - 2")]
    assert "p corrected" in done.out
    assert re.search(r"\.\d{4} ?\*{0,2}\s*$|1\.0000\s*$", row)
