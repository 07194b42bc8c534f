"""The calls of the Python API that take what commands take, and what they refuse."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import foltr_audit as fa
from foltr_audit.core.settings.fields import AttackFields
from foltr_audit.errors import FoltrAuditError
from tests.fixtures.command import answer, run
from tests.fixtures.doc_examples import README, blocks

SMALL: dict[str, Any] = {
    "data": {"source": "synthetic:mq2007:30"},
    "population": {"clients": 10},
    "train": {"rounds": 1},
}
ROOT = Path(__file__).resolve().parents[2]


def test_the_types_of_the_readme_s_program_are_checked() -> None:
    """mypy checks the copy, as every file of the tests."""
    (program,) = [block for block in blocks(README) if block.is_program]
    copy = (ROOT / "tests" / "examples" / "readme_program.py").read_text()
    assert program.text.strip() == copy.strip()


def test_calibrate_answers_what_the_command_answers() -> None:
    told = answer("calibrate --target-eps 1.2 --parameters 46")
    assert json.loads(fa.calibrate(1.2, parameters=46).json()) == told


def test_the_package_has_public_names_alone() -> None:
    """What editors complete after `fa.`; rooms are there once something imports them."""
    for name, value in vars(fa).items():
        is_room = isinstance(value, ModuleType) and value.__name__ == f"foltr_audit.{name}"
        assert name in fa.__all__ or name.startswith("_") or is_room


def test_lists_are_lists_of_what_the_command_shows() -> None:
    names = fa.list_attacks()
    assert isinstance(names, list)
    assert names == [row["name"] for row in names.rows()]
    assert fa.list_attacks().rows() == answer("list attacks")["plugins"]
    assert fa.list_names("knowledge").rows() == answer("list knowledge")["knowledge"]


def test_check_answers_what_the_command_answers(tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("max_attack_auc = 0.6\n")
    world = "--data synthetic:mq2007:30 --clients 10 --rounds 1 --click-model perfect"
    told = run(f"check {world} --method map --json", limits)
    spec = fa.Spec(**SMALL, attack={"click_models": ["perfect"]})
    found = fa.check(limits, spec, methods="map")
    assert found.rows() == told.json()["outcomes"]
    assert (found.holds, told.code) == (False, 1)
    assert repr(found).splitlines()[1] == "1 limit checked on 1 row: 1 broken."
    assert fa.check({"max_attack_auc": 0.6}, [spec], methods=["map"]).rows() == found.rows()


def test_arguments_take_the_place_of_fields() -> None:
    spec = fa.Spec(**SMALL)
    report = fa.attack(spec, methods="olsr", click_models="perfect", defense="clip:norm=1.5")
    (row,) = [row for row in report.results if not row["baseline"]]
    assert (row["method"], row.setting.defense) == ("olsr", "clip:norm=1.5")
    attack: AttackFields = {"methods": ["olsr"], "click_models": ["perfect"]}
    given = fa.Spec(**SMALL, attack=attack, defense="clip:norm=1.5")
    assert fa.attack(given).json() == report.json()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: fa.Spec(train={"round": 5}),  # type: ignore[arg-type]
            "unknown field train.round; did you mean 'rounds'",
        ),
        (lambda: fa.Spec(train={"rounds": 0}), r"^Spec: train\.rounds=0: "),
        (
            lambda: fa.Spec(data="MQ2008"),  # type: ignore[arg-type]
            r'expected a table, e\.g\. {"source": "MQ2008"}',
        ),
        (lambda: fa.Spec(attack={"methods": ["olrs"]}), "unknown attack 'olrs'; did you mean 'olsr'"),
        (lambda: fa.attack({"tran": {}}), "unknown field 'tran'; did you mean 'train'"),
        (lambda: fa.attack(fa.Spec()), "no attack protocol"),
        (lambda: fa.calibrate(0.0, parameters=4), r"^target_eps: 0; expected"),
        (lambda: fa.calibrate(1.2, parameters=4, mechanisms=["lapalce"]), r"^mechanisms: unknown 'lapalce'"),
        (lambda: fa.recommend(), r"^max_eps: missing; expected it, max_proven_auc, or both"),
        (lambda: fa.check({"max_auc": 0.6}, fa.Spec()), "unknown limit 'max_auc'; did you mean"),
        (lambda: fa.check({"max_attack_auc": 0.6}, "no-such-run"), "no-such-run"),
        (lambda: fa.list_names("attack"), "unknown kind 'attack'; did you mean 'attacks'"),
    ],
)
def test_wrong_arguments_are_one_clear_line(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(FoltrAuditError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_stages_are_logged_and_silent_by_default(caplog: pytest.LogCaptureFixture) -> None:
    assert any(isinstance(one, logging.NullHandler) for one in logging.getLogger("foltr_audit").handlers)
    with caplog.at_level(logging.INFO, logger="foltr_audit"):
        fa.simulate(fa.Spec(**SMALL))
    said = [record.getMessage() for record in caplog.records]
    assert any("training" in text and "1 round" in text for text in said)
    assert all(record.name.startswith("foltr_audit") for record in caplog.records)
