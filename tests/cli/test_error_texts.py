"""Errors that newcomers met: each is one line that names option and value, and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from foltr_audit.cli.options import split_methods
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError, UsageError, suggest_name
from tests.fixtures.command import SMALL, answer, but, refusal


def test_files_of_others_are_not_quoted(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0:0:administrator:/root:/bin/bash\n")
    for given in (but(SMALL, "--data", secret), (*SMALL, "--queries", secret), (*SMALL, "--config", secret)):
        line = refusal("attack", *given).replace(str(secret), "")
        assert not [word for word in ("root", "administrator") if word in line]
    assert "label of 40 bytes is not a number" in refusal("attack --data", secret)


def test_several_attacks_in_one_option() -> None:
    assert split_methods(["olsr,lad", "map:a=b,c=d"]) == ["olsr", "lad", "map:a=b,c=d"]
    rows = answer("attack --click-model perfect --method olsr,first-position", *SMALL)["results"]
    assert {"olsr", "first-position"} <= {row["method"] for row in rows}


def test_a_longer_name_means_the_one_that_it_begins_with() -> None:
    known = ["pham-2022", "pham-2022-figure-1", "zhuang-2021-table-6"]
    assert suggest_name("pham-2022-table-4", known).startswith("did you mean 'pham-2022'?")
    assert suggest_name("pham-2022-figure-1x", known).startswith("did you mean 'pham-2022-figure-1'?")
    assert suggest_name("mapx", ["map", "max-gain"]).startswith("did you mean 'map'?")


def test_labels_beyond_every_published_click_model_are_refused(tmp_path: Path) -> None:
    rows = [f"{9 if q % 2 else 0} qid:{q} 1:{q}" for q in range(20) for _ in range(12)]
    (tmp_path / "data.txt").write_text("\n".join(rows))
    assert "labels 0..4" in refusal("attack --data", tmp_path / "data.txt")


def test_data_without_a_query_to_attack_are_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("\n".join(f"{q % 3} qid:{q} 1:{q}" for q in range(20)))
    assert "10 documents" in refusal("attack --data", tmp_path / "data.txt")


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_model_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.npy").write_bytes(content)
    assert "model.npy" in refusal("train", *SMALL, "--init", tmp_path / "model.npy")


def test_features_too_large_for_the_message_are_refused_with_advice(tmp_path: Path) -> None:
    rows = [f"{q % 3} qid:{q} 1:{3e38 if d % 2 else -3e38:g}" for q in range(10) for d in range(12)]
    (tmp_path / "data.txt").write_text("\n".join(rows))
    options = "--normalise none --clients 5 --learning-rate 1e6"
    assert "normalise" in refusal(f"attack {options} --data", tmp_path / "data.txt")


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
