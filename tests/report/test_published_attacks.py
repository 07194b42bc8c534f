"""Published figures beside those found: means of folds and random guesses, against slow loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.presets import Preset, load_preset
from foltr_audit.experiments.published import StudyExtent
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.stages import AttackFindings
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.report.presets import PresetComparison
from foltr_audit.report.terminal import ResultConsole
from foltr_audit.utils.formatting import short
from tests.fixtures.evidence import random_evidence
from tests.fixtures.run_results import run_of

HERE = StudyExtent(data="made", synthetic=True)


def cell(spec: Spec, evidence: ClickEvidence, label: str = "olsr") -> Run:
    """A cell that was run, with one attack under navigational clicks."""
    evidence = replace(evidence, guessed={label: evidence.guessed["attack"]})
    found = {"navigational": TaskEvidence(found={"clicks": evidence})}
    return run_of(spec, eps_claimed=1.2, attacks=AttackFindings(found=found))


def spec_of(fold: int = 0, repetition: int = 0, **changes: Any) -> Spec:
    return Spec.parse({"data": {"fold": fold}, "repetition": repetition, **changes})


def lists_of(evidence: ClickEvidence) -> list[tuple[list[bool], list[bool]]]:
    """Clicks and guesses of every list with a click, documents only."""
    found = []
    guesses = evidence.guessed["attack"].guess
    for here, clicks, guess in zip(evidence.is_document, evidence.clicks, guesses, strict=True):
        if clicks.any():
            found.append((clicks[here].tolist(), guess[here].tolist()))
    return found


def slow(pairs: Sequence[tuple[list[bool], list[bool]]]) -> dict[str, float]:
    """Mean accuracy, precision and recall, list by list."""
    hits = [sum(c and g for c, g in zip(*pair, strict=True)) for pair in pairs]
    precision = [n / sum(guess) for n, (_, guess) in zip(hits, pairs, strict=True) if any(guess)]
    return {
        "accuracy": fmean(fmean(c == g for c, g in zip(*pair, strict=True)) for pair in pairs),
        "precision": fmean(precision) if precision else float("nan"),
        "recall": fmean(n / sum(clicks) for n, (clicks, _) in zip(hits, pairs, strict=True)),
    }


def compared(preset: Preset, **cells: Sequence[Run]) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows by cell and method."""
    rows: list[dict[str, Any]] = [row.plain() for row in PresetComparison.of(preset, {"": cells}, HERE).rows]
    found = {(row["cell"], row["method"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_means_of_folds_against_a_slow_loop() -> None:
    # Fold 1 has many lists, fold 2 few and fold 1 a second repetition: each fold still weighs the same.
    sizes = {1: 80, 2: 30, 3: 8}
    one, again, two = (random_evidence(seed, lists=n, silent=0.3) for seed, n in sizes.items())
    runs = [cell(spec_of(1), one), cell(spec_of(1, 5), again), cell(spec_of(2), two)]
    row = compared(load_preset("pham-2022"), mine=runs)["mine", "olsr"]
    first, second, third = (slow(lists_of(evidence)) for evidence in (one, again, two))
    for name in ("accuracy", "precision", "recall"):
        assert row[name] == pytest.approx(fmean([fmean([first[name], second[name]]), third[name]]), abs=1e-12)
    assert row["folds"] == 2
    assert row["lists"] == sum(len(lists_of(evidence)) for evidence in (one, again, two))
    assert [row[f"published_{name}"] for name in ("accuracy", "precision", "recall")] == [0.84, 0.63, 0.94]


@pytest.mark.parametrize("k", [3, 4])
def test_random_guesses_against_all_of_them(k: int) -> None:
    evidence = random_evidence(4, lists=25, k=6)
    row = compared(load_preset("pham-2022"), mine=[cell(spec_of(), evidence)])["mine", f"random:k={k}"]
    per_list = []
    for clicks, _ in lists_of(evidence):
        n = len(clicks)
        guesses = [[d in named for d in range(n)] for named in combinations(range(n), min(k, n))]
        per_list.append(slow([(clicks, guess) for guess in guesses]))
    for name in ("accuracy", "precision", "recall"):
        assert row[name] == pytest.approx(fmean(one[name] for one in per_list), abs=1e-12)


def test_lists_without_a_guess_do_not_count_in_the_precision() -> None:
    evidence = random_evidence(5)
    silent = replace(evidence.guessed["attack"], guess=np.zeros_like(evidence.clicks))
    nothing = replace(evidence, guessed={"attack": silent})
    folds = [cell(spec_of(1), evidence), cell(spec_of(2), nothing)]
    rows = compared(load_preset("pham-2022"), both=folds, none=folds[1:])
    assert rows["both", "olsr"]["precision"] == pytest.approx(slow(lists_of(evidence))["precision"])
    assert rows["none", "olsr"]["precision"] is None
    assert rows["none", "olsr"]["recall"] == 0


def test_an_attack_is_compared_with_the_best_of_the_others() -> None:
    """`olsr` names all clicks, two others all or no documents; each list is of a query of its own."""
    here = random_evidence(8, lists=40)
    none = replace(here.guessed["attack"], guess=np.zeros_like(here.clicks))
    guessed = {
        "olsr": replace(none, guess=here.clicks),
        "higher-score": replace(none, guess=here.is_document),
        "higher-distance": none,
    }
    here = replace(here, guessed=guessed, query=np.arange(40).astype(np.str_))
    found = {"navigational": TaskEvidence(found={"clicks": here})}
    run = run_of(spec_of(), eps_claimed=1.2, attacks=AttackFindings(found=found))
    comparison = PresetComparison.of(load_preset("pham-2022"), {"": {"mine": [run]}}, HERE)
    rows: dict[str, dict[str, Any]] = {row["method"]: row.plain() for row in comparison.rows}
    best, every, nothing = (rows[name] for name in guessed)
    rivals = [row["accuracy"] for row in (every, nothing)]
    assert best["accuracy_above_others"] == pytest.approx(1.0 - max(rivals))
    assert best["precision_above_others"] == pytest.approx(1.0 - every["precision"])
    assert best["recall_above_others"] == every["recall_above_others"] == 0.0
    assert every["precision_above_others"] == pytest.approx(every["precision"] - 1.0)
    assert nothing["precision_above_others"] is nothing["precision_above_others_ci95"] is None
    low, high = best["accuracy_above_others_ci95"]
    assert 0.0 < low < best["accuracy_above_others"] < high
    low, high = best["recall_above_others_ci95"]
    assert low < 0.0 < high
    console = ResultConsole(width=100, file=(printed := StringIO()))
    comparison.print(console)
    line = printed.getvalue().partition("olsr less the best other attack")[2].splitlines()[3].split()
    assert line[:3] == ["mine", "navigational", short(best["accuracy_above_others"])]
    assert rows["random:k=3"]["accuracy_above_others"] is None
    assert rows["random:k=3"]["accuracy_ci95"] is not None


def test_settings_stay_apart_and_a_refused_attack_has_no_row() -> None:
    evidence = random_evidence(6)
    axis = [spec_of(defense=["clip:norm=1"]), spec_of(defense=["clip:norm=2"])]
    cells = {"mine": [cell(spec, evidence) for spec in axis]}
    comparison = PresetComparison.of(load_preset("pham-2022"), {"": cells}, HERE)
    defenses = [row["defense"] for row in comparison.rows if row["method"] == "olsr"]
    assert defenses == ["clip:norm=1", "clip:norm=2"]
    half = [cell(spec_of(1), evidence), cell(spec_of(2), evidence, label="max-gain")]
    methods = {method for _, method in compared(load_preset("pham-2022"), mine=half)}
    assert methods == {"random:k=3", "random:k=4"}


def test_baselines_are_compared_only_where_something_was_published() -> None:
    evidence = random_evidence(7)
    for label, baselines, there in (("first-position", ["first-position"], False), ("map", [], True)):
        marked = replace(evidence, baselines=frozenset(baselines))
        rows = compared(load_preset("pham-2022"), mine=[cell(spec_of(), marked, label=label)])
        assert (("mine", label) in rows) == there
