"""Growth curves, the schedule of several workers, and the comparison with published programs."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.figures import BenchmarkFigure
from benchmarks.growth_picture import curve, draw_growth
from benchmarks.scale import SIZES, TEXTS, figures_of
from benchmarks.scale_worker import WORK, made_up
from benchmarks.schedule import MeasuredStudy, makespan


def values(figures: list[BenchmarkFigure]) -> dict[str, float]:
    return {one.key: one.value for one in figures}


def test_growth_is_that_of_a_unit_and_not_of_the_whole() -> None:
    flat = values(figures_of("clients", {10: (1.0, 1000.0), 100: (10.0, 10_000.0)}))
    assert flat["scale.clients.time_growth"] == 1
    assert flat["scale.clients.memory_growth"] == 1
    assert flat["scale.clients.time_100"] == 1e5  # microseconds
    square = values(figures_of("clients", {10: (1.0, -5.0), 20: (4.0, 2000.0), 40: (16.0, 16_000.0)}))
    assert square["scale.clients.time_growth"] == 4
    assert square["scale.clients.memory_growth"] == 4, "over the first size that takes memory"


def test_every_subject_has_work_sizes_and_words() -> None:
    assert set(WORK) == set(SIZES) == set(TEXTS)
    assert SIZES["clients"][-1] == 1_000_000
    assert SIZES["cells"][-1] == 10_000
    assert SIZES["documents"][-1] == SIZES["features"][-1] == 5_000


def test_made_up_data_have_the_size_that_was_asked_for() -> None:
    data = made_up(7, 3)
    assert set(data.train.lengths) == {7}
    assert data.n_features == 3


def test_the_picture_shows_every_size_and_is_the_same_each_time(tmp_path: Path) -> None:
    figures = [one for name in TEXTS for one in figures_of(name, {10: (1.0, 1e6), 100: (11.0, 1e7)})]
    assert curve(figures, "cells", "memory") == ([10, 100], [1e5, 1e5])
    for name in ("a.svg", "b.svg"):
        draw_growth(tmp_path / name, figures)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(ValueError, match="no growth curves"):
        draw_growth(tmp_path / "c.svg", [])


def test_list_scheduling_is_by_hand_and_never_beats_its_bounds() -> None:
    assert makespan([3, 1, 2], 2, 0) == 3
    assert makespan([1, 1, 1, 1], 4, 0.25) == 2  # all end at 1, and are stored one after the other
    for order in permutations([5.0, 3.0, 2.0, 2.0, 1.0]):
        assert max(13 / 3, 5) <= makespan(order, 3, 0) <= 13 / 3 + (1 - 1 / 3) * 5  # Graham 1966
    assert MeasuredStudy((1.0,) * 16, 0.0).speed_up(4) == 4
    assert MeasuredStudy((1.0,) * 16, 1.0).speed_up(4) < 1.1, "one process that stores is the limit"


def test_a_program_that_is_not_there_is_skipped_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert peers.main([str(tmp_path / "none"), str(tmp_path / "empty")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"skipped: {tmp_path / 'none'}: no such folder"
    assert said[1].startswith(f"skipped: {tmp_path / 'empty'}: expected one of fpdgd-ictir2021")
    assert len(said) == 2


def test_a_program_whose_imports_are_missing_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for mark in ("algorithms/PDGD/pdgd.py", "utils/clicks.py"):
        (tmp_path / mark).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / mark).write_text("import surely_not_installed\n")
    assert peers.main([str(tmp_path), "--quick", "--repetitions", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("skipped: OnlineLearningToRank: something is not installed: No module named")
    assert said.count("\n") == 1
