"""Bundles of Runs: traces without their truth, models and results anew, and data that lie elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from foltr_audit.errors import UsageError
from foltr_audit.evidence.bundle.manifest import NAME
from foltr_audit.evidence.bundle.pack import pack
from tests.fixtures.bundles import Files, changed_json, content, forged
from tests.fixtures.command import Done, run
from tests.fixtures.data_cache import TEXT
from tests.fixtures.stored_runs import rounds_of, write_run

TINY = ("--data", "synthetic:mq2007:60", "--clients", "5", "--rounds", "2", "--threads", "1")


def states(done: Done) -> dict[str, str]:
    """What came of each check, of a verification in JSON."""
    return {check["check"]: check["state"] for check in done.json()["checks"]}


def made(*arguments: object) -> None:
    done = run(*arguments)
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one attacked Run."""
    path = tmp_path_factory.mktemp("attacked") / "run"
    made("attack", *TINY, "--eps", "1.2", "--click-model", "perfect", "--attack-on", "test", "--out", path)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two trained Runs."""
    path = tmp_path_factory.mktemp("trained") / "plan"
    made("train", *TINY, "--runs", "2", "--out", path)
    return path


def test_a_run_with_its_trace_is_verified_and_holds_no_truth(attacked: Path, tmp_path: Path) -> None:
    made("bundle", attacked, "--to", tmp_path / "b.zip", "--with-trace")
    names = set(content(tmp_path / "b.zip"))
    assert (attacked / "trace" / "truth").is_dir()
    assert not [name for name in names if "truth" in name]
    assert {"trace/trace.toml", "trace/observed/messages-00000.npz", "fresh/perfect/trace.toml"} <= names
    done = run("verify", tmp_path / "b.zip", "--json")
    assert done.code == 0, done.out + done.err
    assert states(done) == dict.fromkeys(("files", "Specs", "Runs", "re-run", "results"), "holds")


def test_without_being_asked_no_trace_is_packed(attacked: Path, tmp_path: Path) -> None:
    packed = pack(attacked, tmp_path / "b.zip")
    assert set(packed.manifest.files) == {"spec.toml", "model.npy", "results.json"}


def test_a_truth_in_a_bundle_is_refused(attacked: Path, tmp_path: Path) -> None:
    files = content(pack(attacked, tmp_path / "b.zip", with_trace=True).path)
    name = "trace/truth/clicks-00000.npz"
    done = run("verify", forged(tmp_path / "f.zip", {**files, name: (attacked / name).read_bytes()}))
    assert done.code == 1
    assert f"{name}: not a file of this kind of bundle" in " ".join(done.out.split())


@pytest.mark.parametrize("name", ["model.npy", "results.json", "trace/observed/messages-00000.npz"])
def test_what_a_new_run_does_not_find_is_named(attacked: Path, tmp_path: Path, name: str) -> None:
    files = content(pack(attacked, tmp_path / "b.zip", with_trace=True).path)
    done = run("verify", forged(tmp_path / "f.zip", changed(files, name)))
    assert done.code == 1
    assert name in done.out
    assert "does not hold" in done.out


def changed(files: Files, name: str) -> Files:
    """Another model, result or message."""
    if name == "results.json":
        return {**files, name: changed_json(files[name], lambda table: table["results"][0].update(auc=1.0))}
    data = bytearray(files[name])
    data[-1] ^= 1
    return {**files, name: bytes(data)}


def test_results_of_several_runs_need_all_of_them(trained: Path, tmp_path: Path) -> None:
    path = pack(trained, tmp_path / "b.zip").path
    some = run("verify", path, "--sample", "1", "--json")
    assert (some.code, states(some)["re-run"], states(some)["results"]) == (1, "holds", "not possible")
    every = run("verify", path, "--all", "--json")
    assert every.code == 0, every.out
    assert set(states(every).values()) == {"holds"}
    none = run("verify", path, "--sample", "0", "--json")
    assert (none.code, states(none)["re-run"]) == (0, "skipped")


def test_other_versions_hold_models_and_traces_within_a_tolerance(trained: Path, tmp_path: Path) -> None:
    files = content(pack(trained, tmp_path / "b.zip", with_trace=True).path)
    versions = {**json.loads(files[NAME])["versions"], "polars": "0.0.1"}
    assert run("verify", forged(tmp_path / "f.zip", files, versions=versions), "--all").code == 0
    model = next(name for name in files if name.endswith("model.npy"))
    far = bytearray(files[model])
    far[-1] ^= 0x40  # the exponent of the last weight
    done = run("verify", forged(tmp_path / "g.zip", {**files, model: bytes(far)}, versions=versions), "--all")
    assert done.code == 1
    assert "1 of 46 values differ" in " ".join(done.out.split())


def test_rounds_beside_the_results_are_recomputed_too(trained: Path, tmp_path: Path) -> None:
    import polars as pl

    copy = Path(shutil.copytree(trained, tmp_path / "copy"))
    frame = pl.read_parquet(copy / "rounds.parquet")
    frame.with_columns(pl.col("online_ndcg@10") + 0.25).write_parquet(copy / "rounds.parquet")
    done = run("verify", pack(copy, tmp_path / "b.zip").path, "--all")
    assert done.code == 1
    assert "rounds.parquet" in done.out


def test_a_run_that_is_not_at_its_end_is_packed_only_as_partial(tmp_path: Path) -> None:
    write_run(tmp_path / "run", rounds_of(0.5, [0.5, 0.5, 0.5]), played=1)
    with pytest.raises(UsageError, match="1 of 3 rounds"):
        pack(tmp_path / "run", tmp_path / "b.zip")
    assert pack(tmp_path / "run", tmp_path / "b.zip", partial=True).manifest.partial


def test_data_that_lie_elsewhere_are_named_and_must_be_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.txt").write_text(TEXT)
    made("train", "--data", "here.txt", "--clients", "3", "--rounds", "1", "--threads", "1", "--out", "run")
    made("bundle", "run", "--to", "b.zip")
    (tmp_path / "here.txt").rename(tmp_path / "there.txt")
    (tmp_path / "other.txt").write_text(TEXT.replace(".5", ".25"))
    gone, other, moved = (
        run("verify", "b.zip", "--json", *place)
        for place in ((), ("--data", "other.txt"), ("--data", "there.txt"))
    )
    assert (gone.code, states(gone)["re-run"]) == (1, "not possible")
    assert (other.code, states(other)["re-run"]) == (1, "not possible")
    assert "fingerprint" in other.out
    assert gone.json()["verdict"] == other.json()["verdict"] == "incomplete"
    assert (moved.code, moved.json()["verdict"]) == (0, "verified"), moved.out
    assert run("verify", "b.zip", "--sample", "0").code == 0
