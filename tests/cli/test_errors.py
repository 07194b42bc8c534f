from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.command import SMALL, Done, run


def test_labels_beyond_every_published_click_model_are_refused(tmp_path: Path) -> None:
    rows = [f"{9 if q % 2 else 0} qid:{q} 1:{q}" for q in range(20) for _ in range(12)]
    path = tmp_path / "data.txt"
    path.write_text("\n".join(rows))
    done = run("attack", "--data", path)
    assert done.code == 2
    assert "labels 0..4" in done.one_error()


def test_data_without_a_query_to_attack_are_refused_before_training(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("\n".join(f"{q % 3} qid:{q} 1:{q}" for q in range(20)))
    done = run("attack", "--data", path)
    assert done.code == 2
    assert "10 documents" in done.one_error()


def _configured(tmp_path: Path, text: str) -> Done:
    path = tmp_path / "spec.toml"
    path.write_text(text)
    return run("attack", "--config", path)


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_model_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.npy"
    path.write_bytes(content)
    done = run("train", *SMALL, "--init", path)
    assert done.code == 2
    assert "model.npy" in done.one_error()


def test_features_too_large_for_the_message_are_refused_with_advice(tmp_path: Path) -> None:
    rows = [f"{q % 3} qid:{q} 1:{3e38 if d % 2 else -3e38:g}" for q in range(10) for d in range(12)]
    path = tmp_path / "data.txt"
    path.write_text("\n".join(rows))
    done = run("attack", "--data", path, "--normalise", "none", "--clients", 5, "--learning-rate", 1e6)
    assert done.code == 2
    assert "normalise" in done.one_error()


@pytest.mark.parametrize("text", ["a=" + "[" * 5000, "seed = " + "9" * 5000, "\ufffd\x00"])
def test_a_config_that_breaks_the_parser_is_still_one_line(tmp_path: Path, text: str) -> None:
    done = _configured(tmp_path, text)
    assert done.code == 2
    assert "spec.toml" in done.one_error()
