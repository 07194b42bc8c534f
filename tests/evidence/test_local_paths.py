"""Where data lie on somebody's machine is in nothing that is made for others: bundles, pages and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from foltr_audit.core.settings.data import path_name
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import load_collection
from foltr_audit.errors import FoltrAuditError
from foltr_audit.evidence.verification import DataPlaces
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.plan import Plan
from foltr_audit.report.compare import CompareReport
from tests.fixtures.bundles import GRID, content, write_comparison
from tests.fixtures.command import run

TEXT = "".join(
    f"{(query + row) % 3} qid:{query} 1:{query + row} 2:{row * row % 7}.5 #docid = D{query}-{row}\n"
    for query in range(20)
    for row in range(11)
)
SMALL = ("--clients", 5, "--rounds", 2, "--threads", 1)


@pytest.fixture(scope="module")
def letor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with data."""
    path = tmp_path_factory.mktemp("home-of-ann") / "searches.txt"
    path.write_text(TEXT)
    return path


def without(place: Path, found: Mapping[str, bytes]) -> None:
    """No file holds the path of a folder."""
    assert found
    assert [name for name, data in found.items() if str(place).encode() in data] == []


def test_a_comparison_is_told_packed_and_verified_without_its_data_path(letor: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    spec = cast("dict[str, object]", GRID["spec"]) | {"data": {"source": str(letor)}}
    write_comparison(study, GRID | {"spec": spec})
    assert str(letor) in (study / "grid.toml").read_text()  # --resume and --config need it
    assert run("report", study, "--out", tmp_path / "page.html").code == 0
    found = CompareReport.of(ComparisonFolder.open(study))
    for name in ("found.csv", "found.json", "found.html", "found.txt"):
        found.save(tmp_path / name)
    assert run("report", study, "--zip", tmp_path / "b.zip").code == 0
    told = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    without(letor.parent, told | content(tmp_path / "b.zip"))
    assert b"searches.txt" in told["page.html"]
    lost = run("check", tmp_path / "b.zip", "--json", "--jobs", 1)
    assert lost.code == 1
    assert lost.json()["verdict"] == "incomplete"
    assert "--data PATH says where the data are" in str(lost.json()["checks"])
    assert run("check", tmp_path / "b.zip", "--data", letor, "--jobs", 1).code == 0


def test_a_run_and_its_trace_are_packed_without_it_and_still_found_here(letor: Path, tmp_path: Path) -> None:
    given = ("attack", "--data", letor, *SMALL, "--click-model", "perfect", "--method", "olsr")
    assert run(*given, "--out", tmp_path / "run").code == 0
    assert run("report", tmp_path / "run", "--zip", tmp_path / "b.zip", "--with-trace").code == 0
    without(letor.parent, content(tmp_path / "b.zip"))
    assert run("check", tmp_path / "b.zip", "--data", letor).code == 0
    # The Run itself knows where its data are: alone, and for the traces in it.
    for place in (tmp_path / "run", tmp_path / "run" / "trace"):
        done = run("attack", "--trace", place, "--method", "olsr", "--json")
        assert done.code == 0, done.err
        assert done.json()["dataset"]["source"] == "searches.txt"


def test_a_curve_and_the_results_of_a_training_name_the_data(letor: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curves.svg"
    done = run("train", "--data", letor, *SMALL, "--runs", 1, "--plot", picture, "--json")
    assert done.code == 0, done.err
    without(letor.parent, {"curves.svg": picture.read_bytes(), "results": done.out.encode()})
    assert done.json()["config"]["data"]["source"] == "searches.txt"


def test_a_spec_has_one_hash_wherever_its_data_lie_and_keeps_the_path() -> None:
    here, there, other = (
        Spec(data={"source": source, "intents": "/home/ann/qrels"}, train={"init": "/home/ann/model.npy"})
        for source in ("/home/ann/MQ2008", "/data/MQ2008/", "/data/MQ2007")
    )
    assert here.hash == there.hash == here.public.hash != other.hash
    assert Spec.from_toml(here.toml) == here
    assert "/home" not in here.public.toml + Plan((here, other)).public.toml
    assert "/home" not in ComparisonGrid.of_spec(here.model_copy(update={"attack": None})).public.toml
    assert (here.public.data.intents, here.public.train.init) == ("qrels", "model.npy")


def test_a_file_of_intents_is_found_where_it_lies_here(letor: Path, tmp_path: Path) -> None:
    lines = (f"{q} {i} D{q}-{row} {row % i}\n" for q in range(20) for i in (1, 2, 3) for row in range(11))
    (tmp_path / "web.qrels").write_text("".join(lines))
    spec = Spec(data={"source": str(letor), "intents": f"{tmp_path}/web.qrels:2"})
    packed, fingerprint = spec.public, load_collection(spec.data, spec.seed).fingerprint
    assert packed.data.intents == "web.qrels:2"
    here = DataPlaces(str(letor), spec.data.intents).load(packed, fingerprint)
    assert (here.n_intents, here.intents_from) == (2, "web.qrels:2")
    with pytest.raises(FoltrAuditError, match=r"^intents 'web.qrels:2': not on this machine; --intents PATH"):
        DataPlaces(str(letor)).load(packed, "")


@pytest.mark.parametrize(
    ("path", "name"),
    [*((path, "data") for path in ("..", ".", "/", "a/../")), ("zeros", "zeros"), ("a/b.txt", "b.txt")],
)
def test_every_path_has_a_name_that_is_its_own_name(path: str, name: str) -> None:
    assert path_name(path) == name == path_name(name)


def test_a_run_goes_on_after_its_data_were_moved_and_not_on_other_data(letor: Path, tmp_path: Path) -> None:
    options = (*SMALL, "--runs", 2, "--out", tmp_path / "run", "--json")
    first = run("train", "--data", letor, *options)
    for folder, text in (("new home", TEXT), ("other", TEXT.replace("1:5", "1:6"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / letor.name).write_text(text)
    moved = run("train", "--data", tmp_path / "new home" / letor.name, *options, "--resume")
    assert moved.code == 0, moved.err
    assert moved.json()["rounds"] == first.json()["rounds"]
    assert "new home" in (tmp_path / "run" / "plan.toml").read_text()
    other = run("train", "--data", tmp_path / "other" / letor.name, *options, "--resume")
    assert (other.code, "dataset.fingerprint" in other.err) == (2, True)
