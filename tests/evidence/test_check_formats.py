"""Annotations of a check: what GitHub asks for, whatever names are in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.evidence.check.report import LimitsPlace, annotation_lines
from tests.evidence.test_check_files import report
from tests.fixtures.there import there

TEXT = "# limits\nmax_attack_auc = 0.9\n\nmax_proven_eps=0.9\nmin_ndcg = 0.1\n  max_ndcg_loss = 0.2\n"
PLACE = LimitsPlace("ci/our limits.toml", {"max_proven_eps": 4, "max_ndcg_loss": 6})


@given(name=st.text(max_size=20))
def test_every_annotation_is_one_command_of_one_line(name: str) -> None:
    lines = annotation_lines(report(name, (f"first\r\nsecond {name}",)), PLACE).split("\n")
    assert len(lines) == 4
    pattern = r"::error file=([^,:]+),line=(\d+),title=([^,:]+)::(.+)"
    broken, unjudged = (there(re.fullmatch(pattern, line)) for line in lines[:2])
    assert broken.group(1, 2, 3) == ("ci/our limits.toml", "4", "max_proven_eps%3A broken")
    assert unjudged.group(2, 3) == ("6", "max_ndcg_loss%3A not judged")
    assert re.fullmatch(r"::warning title=foltr-audit check::(FA\d+: )?first.*", lines[2])
    assert lines[3] == "4 limits checked on 1 row: 1 broken, 1 not judged"


def test_the_place_of_a_limit_is_its_line_and_never_a_path_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "work" / "ci" / "limits.toml", tmp_path / "limits.toml"
    inside.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    place = LimitsPlace.of(inside, TEXT)
    assert place.name == "ci/limits.toml"
    assert LimitsPlace.of(outside, TEXT).name == "limits.toml"
    assert place.lines == {"max_attack_auc": 2, "max_proven_eps": 4, "min_ndcg": 5, "max_ndcg_loss": 6}
    assert place.line("min_ndcg") == 5
    assert place.line("max_exact_eps") == 1
