"""Errors that newcomers met: each is one line that names option and value, and what was expected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import foltr_audit as fa
from foltr_audit.cli.options import split_methods
from foltr_audit.errors import UsageError, suggest_name
from tests.fixtures.command import SMALL, run


def test_files_of_others_are_not_quoted(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0:0:administrator:/root:/bin/bash\n")
    for option in ("--data", "--queries", "--config"):
        line = run("attack", *SMALL, option, secret).one_error()
        assert "root" not in line.replace(str(secret), "")
        assert "administrator" not in line
    assert "label of 40 bytes is not a number" in run("attack", "--data", secret).one_error()


def test_several_attacks_in_one_option() -> None:
    assert split_methods(["olsr,lad", "map:a=b,c=d"]) == ["olsr", "lad", "map:a=b,c=d"]
    options = ("--click-model", "perfect", "--method", "olsr,first-position", "--json")
    rows = run("attack", *SMALL, *options).json()
    assert {"olsr", "first-position"} <= {row["method"] for row in rows["results"]}


def test_a_longer_name_means_the_one_that_it_begins_with() -> None:
    known = ["pham-2022", "pham-2022-figure-1", "zhuang-2021-table-6"]
    assert suggest_name("pham-2022-table-4", known).startswith("did you mean 'pham-2022'?")
    assert suggest_name("pham-2022-figure-1x", known).startswith("did you mean 'pham-2022-figure-1'?")
    assert suggest_name("mapx", ["map", "max-gain"]).startswith("did you mean 'map'?")


def test_a_spec_in_python_says_what_is_wrong() -> None:
    with pytest.raises(UsageError, match=re.escape("unknown field train.round; did you mean 'rounds'?")):
        fa.Spec(train={"round": 5})
    with pytest.raises(UsageError, match=re.escape("Spec: train.rounds=0: ")):
        fa.Spec(train={"rounds": 0})
    with pytest.raises(UsageError, match="unknown attack 'olrs'; did you mean 'olsr'"):
        fa.Spec(attack={"methods": ["olrs"]})


def test_an_attack_of_a_trace_may_be_a_text(tmp_path: Path) -> None:
    run("attack", *SMALL, "--click-model", "perfect", "--out", tmp_path / "run")
    found = fa.attack_trace(str(tmp_path / "run"), "first-position")
    assert {row.method for row in found.results if not row.baseline} == set()
    assert "first-position" in {row.method for row in found.results}


def test_published_chains_name_their_argument() -> None:
    with pytest.raises(UsageError, match=r"^eps: -1; expected a number above 0"):
        fa.published_chain(eps=-1)
