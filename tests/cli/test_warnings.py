"""Warnings stand in JSON and on stderr, whole lines of it, and not among the results on stdout."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from pathlib import Path
from typing import Any

import pytest

import foltr_audit as fa
from foltr_audit.core.settings.fields import AttackFields
from foltr_audit.core.warning_kinds import WARNINGS
from tests.fixtures.command import SMALL, answer, run, spawn

pytestmark = pytest.mark.usefixtures("laws_as_declared")
CHAIN = ("--eps", "1.2")
CHECKS = Path(fa.__file__).parent / "core/declared/checks.py"
CHECK_NAMES = re.findall(r'check="([^"]+)"', CHECKS.read_text(encoding="utf-8"))
NOISE = "gamma-laplace: each message carries only 1/40 of the noise"


@pytest.mark.parametrize(
    "command", ["attack --click-model perfect", "train", "audit --trials 40 --view individual"]
)
def test_a_wrong_pairing_is_in_json_and_on_stderr(command: str) -> None:
    told = run(command, *SMALL, *CHAIN, "--json")
    shown = run(command, *SMALL, *CHAIN, "--full")
    brief = run(command, *SMALL, *CHAIN)
    assert [(row["code"], row["warning"]) for row in told.json()["warnings"]] == shown.coded_warnings
    codes = " ".join(sorted({code for code, _ in shown.coded_warnings}))
    (line,) = [line for line in brief.err.splitlines() if "warning" in line]
    assert line.startswith(f"{len(shown.warnings)} warnings: {codes} (--full shows them; ")
    assert line in told.err.splitlines()
    assert brief.warnings == told.warnings == []
    quiet = run(command, *SMALL, *CHAIN, "--quiet")
    assert "warning" not in quiet.err
    chains = {row["defense"] for row in told.json()["warnings"]}
    assert chains == {"clip:norm=1.5+gamma-laplace:eps=1.2,sensitivity=3"}
    assert len([text for text in shown.warnings if text.startswith(NOISE)]) == 1
    assert "warning" not in shown.out


def test_each_code_is_explained() -> None:
    listed = answer("list warnings")["warnings"]
    assert [row["code"] for row in listed] == sorted(WARNINGS)
    assert set(CHECK_NAMES) <= {kind.name for kind in WARNINGS.values()}
    told = run("list warnings fa102")
    assert told.out.startswith("FA102: ")
    assert WARNINGS["FA102"].text in told.out
    shown = run("list warnings").out
    assert all(code in shown for code in WARNINGS)


def test_verbose_shows_the_log() -> None:
    logger = logging.getLogger("foltr_audit")
    before = [*logger.handlers]
    try:
        done = run("train", *SMALL, "-v")
        with contextlib.redirect_stderr(io.StringIO()) as err:
            logging.getLogger("foltr_audit.rounds").info("a stage\nbegins")
        assert done.code == 0
        assert err.getvalue().endswith(" s  a stage begins\n")
    finally:
        for handler in set(logger.handlers) - set(before):
            logger.removeHandler(handler)


def test_without_a_wrong_pairing_there_is_none() -> None:
    done = run("train", *SMALL, "--json")
    assert (done.json()["warnings"], done.err) == ([], "")


def test_python_gets_them_too() -> None:
    table: dict[str, Any] = {
        "data": {"source": "synthetic:mq2007:60"},
        "population": {"clients": 40},
        "train": {"rounds": 3},
    }
    attack: AttackFields = {"methods": ["olsr"], "click_models": ["perfect"]}
    spec = fa.Spec(**table, attack=attack, defense=fa.published_chain(eps=1.2))
    assert any(row["warning"].startswith(NOISE) for row in fa.attack(spec).warnings)


def test_a_check_and_a_comparison_warn_of_their_rows(tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("min_ndcg = 0.01")
    command = ("check", limits, *SMALL, *CHAIN, "--click-model", "perfect")
    done = run(*command)
    assert done.code == 0
    assert "warning" not in done.out
    assert "(--json shows them; foltr-audit list warnings FA101 explains one)" in done.err
    texts = [row["warning"] for row in run(*command, "--json").json()["warnings"]]
    assert [text for text in texts if text.startswith(f"published, eps 1.2: {NOISE}")]


def test_a_piped_warning_is_one_line_and_has_no_colour() -> None:
    done = spawn("train", *SMALL, *CHAIN, "--full", COLUMNS="40")
    (whole,) = [text for text in done.warnings if text.startswith(NOISE)]
    assert whole.endswith("secure aggregation, or add the whole noise to each message")
    assert done.said.startswith("480 interactions in ")
    assert "\x1b" not in done.err
