"""The benchmark of whole runs: its noises prove what the table says, and its table has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.lifetime import COHORTS, DELTA, NOISES, CohortSizes, ComparedNoise, LifetimeRuns, chain, main
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.privacy.accounting import upper_bound
from foltr_audit.simulation.setup import Setup

SMALL = "synthetic:mq2007:40"


@pytest.mark.parametrize("noise", [noise for noise in NOISES if not noise.secret], ids=lambda one: one.name)
@pytest.mark.parametrize("who", COHORTS, ids=str)
def test_a_chain_proves_its_epsilon_for_the_whole_run(noise: ComparedNoise, who: CohortSizes) -> None:
    runs = LifetimeRuns(SMALL, "informational", 100, 0.5)
    for eps in (1.0, 8.0):
        spec = Spec.parse(
            {
                "defense": chain(noise, who, eps, runs),
                "data": {"source": SMALL},
                "population": {"clients": who.clients, "cohort": who.cohort, "separation": who.separation},
                "train": {"rounds": 100},
            }
        )
        privacy = Setup(spec, runs.collection).privacy
        run = privacy.in_all_rounds(privacy.situation("aggregate", "client", delta=DELTA))
        assert 0.999 * eps <= upper_bound(privacy.events(), run).epsilon <= eps * (1 + 1e-9)


@pytest.mark.slow
def test_its_table_has_every_noise(tmp_path: Path) -> None:
    small = ("--data", SMALL, "--rounds", "4", "--seeds", "2", "--cohorts", "8,2,4")
    main([*small, "--markdown", str(tmp_path / "table.md")])
    lines = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3 + len(NOISES)
    assert all(line.count("|") == 7 for line in lines)
