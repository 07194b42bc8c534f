"""The comparison of presets on intents, from what `study run` prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.real_intents import PAIRS, MeanValue, differences, main
from tests.fixtures.command import run


def run_with(first: float, second: float) -> dict[str, object]:
    """One run of table 5 whose losses are `second` in even periods and `first` in odd ones."""
    scenarios = ("swap:changes=5,first=1,period=0,second=2", "swap:changes=5,first=2,period=0,second=1")
    rows = [
        {
            "trained_on": clicks,
            "learner": "pdgd:interactions=1",
            "population.scenario": scenario,
            "period": period,
            "ndcg_delta@10": (first, second)[period % 2 == 0]
            + 0.01 * (period in {2, 6})
            - 0.02 * (period == 4),
        }
        for clicks in ("perfect", "navigational", "informational")
        for scenario in scenarios
        for period in range(1, 7)
    ]
    return {"published": {"preset": "zhuang-2021-table-5"}, "periods": rows, "utility": []}


def test_differences_are_paired_over_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = [(0.1, 0.3), (0.2, 0.25), (0.0, 0.5)]
    runs = [run_with(*pair) for pair in values]
    gaps = np.array([second - first for first, second in values])
    reach = t.ppf(0.975, 2) * gaps.std(ddof=1) / np.sqrt(3)
    wanted = f"{gaps.mean():+.3f} [{gaps.mean() - reach:+.3f}, {gaps.mean() + reach:+.3f}] over 3 seeds"
    lines = list(differences(runs, PAIRS["zhuang-2021-table-5"]))
    assert len(lines) == 6
    assert all(line.endswith(wanted) for line in lines)
    for seed, one in enumerate(runs):
        (tmp_path / f"{seed}.json").write_text(json.dumps(one))
    main(str(tmp_path))
    assert capsys.readouterr().out.splitlines() == ["zhuang-2021-table-5", *(f"  {line}" for line in lines)]
    (tmp_path / "0.json").unlink()
    main(str(tmp_path))
    assert not capsys.readouterr().out


@pytest.mark.slow
def test_the_names_are_those_of_the_presets() -> None:
    done = run(
        "study", "run", "zhuang-2021-table-6", "--data", "synthetic:clueweb-intents:6",
        "--scale", 0.0005, "--runs", 1, "--json",
    )  # fmt: skip
    for pair in PAIRS["zhuang-2021-table-6"]:
        assert all(np.isfinite(value.of(done.json(), "perfect")) for value in pair)
    assert str(MeanValue(("abrupt",), "ndcg_drop@10", (2, 3))) == "abrupt ndcg_drop@10 2,3"
