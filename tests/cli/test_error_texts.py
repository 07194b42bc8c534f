"""Errors are one short line, whatever was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError, UsageError
from tests.fixtures.command import refusal


def test_no_message_is_long_or_holds_what_a_terminal_obeys(tmp_path: Path) -> None:
    odd = "\x1b[31m" + "x" * 100_000
    with pytest.raises(FoltrAuditError) as raised:
        Spec.parse({odd: 1})
    with pytest.raises(FoltrAuditError) as raised_of_text:
        Spec.from_toml(f'"{"y" * 100_000}" = 1', "spec.toml")
    (tmp_path / "spec.toml").write_text(f'defense = ["{"z" * 100_000}"]')
    lines = (str(raised.value), str(raised_of_text.value), refusal("train --config", tmp_path / "spec.toml"))
    for line in (*lines, refusal("train", "--method", odd), refusal("train", f"--{odd[5:]}")):
        assert len(line) <= len("error: ") + 500
        assert line.isprintable()
    long = UsageError("spec.toml: " + ", ".join(map(str, range(1000))) + "; expected less")
    assert str(long).startswith("spec.toml: 0, 1")
    assert str(long).endswith("; expected less")
