from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.fixtures.command import SMALL, Done, run

OPTIONS = {
    "unknown method": (["--method", "olrs"], "did you mean 'olsr'?"),
    "unknown defense": (["--defense", "clop:norm=1"], "did you mean 'clip'?"),
    "unknown parameter": (["--defense", "clip:nrm=1"], "did you mean 'norm'?"),
    "parameter without value": (["--defense", "clip:norm"], "expected parameter=value"),
    "parameter missing": (["--defense", "clip"], "norm is missing"),
    "parameter no number": (["--defense", "clip:norm=wide"], "norm=wide"),
    "parameter NaN": (["--defense", "clip:norm=nan"], "finite"),
    "unknown click model": (["--click-model", "prefect"], "did you mean 'perfect'?"),
    "unknown part": (["--attack-on", "tset"], "did you mean 'test'?"),
    "unknown pdgd": (["--pdgd", "phm-2022"], "did you mean 'pham-2022'?"),
    "unknown option": (["--epz", "1"], "--eps"),
    "eps zero": (["--eps", "0"], "--eps: 0; expected a number above 0"),
    "eps negative": (["--eps", "-1"], "--eps: -1; expected a number above 0"),
    "eps NaN": (["--eps", "nan"], "--eps: nan; expected a number above 0"),
    "eps and defense": (["--eps", "1", "--defense", "clip:norm=1"], "--eps and --defense"),
    "sensitivity alone": (["--sensitivity", "3"], "--sensitivity: only with --eps"),
    "sensitivity zero": (["--eps", "1", "--sensitivity", "0"], "--sensitivity: 0"),
    "no clients": (["--clients", "0"], "--clients=0"),
    "clients no number": (["--clients", "many"], "--clients"),
    "cohort too large": (["--clients", "5", "--cohort", "6"], "cohort=6"),
    "no rounds": (["--rounds", "0"], "--rounds=0"),
    "no interactions": (["--interactions", "0"], "interactions=0"),
    "no repeats": (["--repeats", "0"], "--repeats=0"),
    "no runs": (["--runs", "0"], "--runs: 0"),
    "fold no number": (["--fold", "x"], "--fold: 'x'"),
    "negative seed": (["--seed", "-1"], "--seed=-1"),
    "no threads": (["--threads", "0"], "--threads: 0"),
    "missing data": (["--data", "nowhere"], "nowhere: no such file or folder"),
    "unknown synthetic": (["--data", "synthetic:mq2008"], "did you mean 'mq2007'?"),
    "synthetic count": (["--data", "synthetic:mq2007:x"], "expected synthetic:NAME"),
    "missing config": (["--config", "nowhere.toml"], "--config: nowhere.toml"),
    "missing model": (["--init", "nowhere.npy"], "--init: nowhere.npy"),
    "resume without out": (["--resume"], "--resume: only with --out"),
    "guesses without trace": (["--guesses", "g.csv"], "--guesses: only with --trace"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_wrong_option_is_one_clear_line_and_exit_code_2(case: str) -> None:
    given, expected = OPTIONS[case]
    done = run("attack", *(SMALL if "--data" not in given else ()), *given)
    assert done.code == 2
    assert expected in done.one_error()


def test_a_missing_trace_is_one_clear_line() -> None:
    done = run("attack", "--trace", "nowhere")
    assert done.code == 2
    assert "nowhere: no such folder" in done.one_error()


def test_an_unknown_command_names_near_ones() -> None:
    done = run("atack")
    assert done.code == 2
    assert "attack" in done.one_error()


@pytest.mark.parametrize("kind", ["attack", "defense", "plugins"])
def test_an_unknown_kind_of_plug_in_names_the_known_ones(kind: str) -> None:
    done = run("list", kind)
    assert done.code == 2
    assert "click-models" in done.one_error()


GOOD = b"1 qid:a 1:0.5 2:1\n0 qid:a 1:0.1 2:2\n"
FILES = {
    "empty": (b"", "no rows"),
    "binary": (b"\x00\x01\x02", "data.txt:1"),
    "label no number": (GOOD + b"x qid:b 1:1 2:1\n", "data.txt:3"),
    "label negative": (GOOD + b"-1 qid:b 1:1 2:1\n", "data.txt:3"),
    "label fractional": (GOOD + b"1.5 qid:b 1:1 2:1\n", "data.txt:3"),
    "feature 0": (GOOD + b"1 qid:b 0:1 2:1\n", "data.txt:3"),
    "feature repeated": (GOOD + b"1 qid:b 1:1 1:1\n", "data.txt:3"),
    "feature huge": (GOOD + b"1 qid:b 1:1 99999999999:1\n", "data.txt:3"),
    "feature no number": (GOOD + b"1 qid:b one:1 2:1\n", "data.txt:3"),
    "value NaN": (GOOD + b"1 qid:b 1:nan 2:1\n", "data.txt:3"),
    "value infinite": (GOOD + b"1 qid:b 1:inf 2:1\n", "data.txt:3"),
    "query missing": (GOOD + b"1 1:1 2:1\n", "data.txt:3"),
    "query split": (GOOD + b"1 qid:b 1:1 2:1\n1 qid:a 1:1 2:1\n", "data.txt:4"),
    "gzip cut": (gzip.compress(GOOD * 1000)[:-20], "data.txt"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_data_file_is_one_clear_line_that_names_file_and_line(case: str, tmp_path: Path) -> None:
    content, expected = FILES[case]
    path = tmp_path / "data.txt"
    path.write_bytes(content)
    done = run("attack", "--data", path)
    assert done.code == 2
    assert expected in done.one_error()


def test_a_group_file_that_does_not_add_up_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rank.train").write_bytes(b"1 1:1\n0 1:2\n")
    (tmp_path / "rank.train.query").write_bytes(b"3\n")
    done = run("data", "info", tmp_path)
    assert done.code == 2
    assert "rank.train.query" in done.one_error()


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed = ", "not TOML"),
        ("sed = 1", "did you mean 'seed'?"),
        ("[population]\nclient = 3", "did you mean 'clients'?"),
        ('schema = "foltr-audit/spec/9"', "schema"),
        ("cells = 3", "[[cells]]"),
        ("[population]\nclients = 0", "--clients=0"),
    ],
)
def test_a_bad_config_is_one_clear_line_that_names_the_file(tmp_path: Path, text: str, expected: str) -> None:
    done = _configured(tmp_path, text)
    assert done.code == 2
    line = done.one_error()
    assert expected in line
    assert "spec.toml" in line


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
