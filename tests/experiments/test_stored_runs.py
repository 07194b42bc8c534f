"""Runs read back from their folders, and the systems and pairs that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import FoltrAuditError, TraceError, UsageError
from foltr_audit.experiments.runs.systems import match_runs, read_systems, without_shared_parameters
from foltr_audit.experiments.store import read_runs
from tests.fixtures.stored_runs import rounds_of, table_of, write_plan, write_run, write_system

PERFECT: dict[str, Any] = {"train": {"click_model": "perfect"}}
NOISY: dict[str, Any] = {"train": {"click_model": "informational"}}


def chain(eps: float) -> dict[str, Any]:
    return {"defense": ["clip:norm=1", f"gamma-laplace:eps={eps},sensitivity=2"]}


# --- one Run --------------------------------------------------------------------------------------


def test_metrics_of_the_last_round_and_of_all(tmp_path: Path) -> None:
    write_run(tmp_path, rounds_of(0.7, [0.1, 0.2, 0.6]))
    (run,) = read_runs(tmp_path).values()
    assert run.metrics["offline_ndcg@10"] == 0.7
    assert run.metrics["online_ndcg@10"] == 0.6
    assert run.metrics["online_mean"] == pytest.approx(0.3, rel=1e-12)
    assert run.metrics["online_sum"] == pytest.approx(0.1 + 0.2 * 0.9995 + 0.6 * 0.9995**2, rel=1e-12)


def test_what_is_no_run_or_damaged_is_one_clear_line(tmp_path: Path) -> None:
    write_run(tmp_path / "run", rounds_of(0.7))
    other = write_run(tmp_path / "other", rounds_of(0.7), seed=2)
    write_system(tmp_path / "several", [0.1, 0.2])
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "trace.toml").touch()

    def told(kind: type[FoltrAuditError], path: Path) -> str:
        with pytest.raises(kind) as found:
            read_runs(path)
        assert "\n" not in str(found.value)
        return str(found.value)

    assert "no such folder" in told(UsageError, tmp_path / "nowhere")
    assert "a trace without its Run" in told(UsageError, tmp_path / "trace")
    assert "neither a Run" in told(UsageError, tmp_path)
    write_run(tmp_path / "begun", rounds_of(0.7), finished=False)
    assert "unfinished; end the run with --resume" in told(UsageError, tmp_path / "begun")
    (tmp_path / "run" / "spec.toml").write_text(other.toml)
    assert "another Spec" in told(TraceError, tmp_path / "run")
    (tmp_path / "other" / "arrays.npz").write_bytes(b"cut")
    assert "damaged: not the content" in told(TraceError, tmp_path / "other")
    (tmp_path / "several" / "plan.toml").write_text("seed = ")
    assert "not TOML" in told(TraceError, tmp_path / "several")


# --- a folder of Runs -----------------------------------------------------------------------------


def test_the_runs_of_a_plan_come_in_its_order(tmp_path: Path) -> None:
    plan = write_system(tmp_path, [0.3, 0.1, 0.2])
    assert [run.spec for run in read_runs(tmp_path).values()] == list(plan.specs)
    assert [run.metrics["offline_ndcg@10"] for run in read_runs(tmp_path).values()] == [0.3, 0.1, 0.2]


def test_a_missing_or_exchanged_run_of_a_plan_is_noticed(tmp_path: Path) -> None:
    plan = write_system(tmp_path, [0.3, 0.1, 0.2])
    lost, other = (tmp_path / spec.hash[:12] for spec in plan.specs[:2])
    away = lost.rename(tmp_path.parent / f"{tmp_path.name}-away")
    with pytest.raises(UsageError, match=rf"Run {lost.name} of its plan.toml is missing.*--resume"):
        read_runs(tmp_path)
    other.rename(lost)
    away.rename(other)
    with pytest.raises(TraceError, match="repetition is 1 there and 0 here"):
        read_runs(tmp_path)


# --- systems --------------------------------------------------------------------------------------


def test_two_folders_are_named_by_what_differs(tmp_path: Path) -> None:
    write_system(tmp_path / "a", [0.3, 0.1], **PERFECT)
    write_system(tmp_path / "b", [0.3, 0.1], **NOISY)
    found = read_systems([tmp_path / "a", tmp_path / "b"])
    clicks = ["perfect", "informational"]
    assert [one.name for one in found] == [f"train.click_model={name}" for name in clicks]
    assert [one.fields for one in found] == [{"train.click_model": name} for name in clicks]
    assert [len(one.runs) for one in found] == [2, 2]


def test_a_folder_holds_several_systems_and_folds_are_repetitions(tmp_path: Path) -> None:
    runs = [
        table_of(rounds_of(0.5), repetition=i, data={"source": "some", "fold": i + 1}, **chain(eps))
        for eps in (1.0, 2.0)
        for i in range(3)
    ]
    write_plan(tmp_path, [(table, rounds_of(0.5)) for table in runs])
    found = read_systems([tmp_path])
    assert [len(one.runs) for one in found] == [3, 3]
    assert [set(one.fields) for one in found] == [{"defense"}] * 2
    assert [one.name.startswith("defense=clip:norm=1") for one in found] == [True, True]
    assert len(match_runs(*found)) == 3


def test_only_what_differs_is_named_and_an_attack_that_one_lacks_is_one_word(tmp_path: Path) -> None:
    for rate in (0.1, 0.2):
        write_system(tmp_path / f"{rate}", [0.3], train={"learner": f"fpdgd:learning_rate={rate}"})
    write_system(tmp_path / "c", [0.3], train={"learner": "fpdgd:learning_rate=0.1"}, attack={})
    names = [one.name for one in read_systems([tmp_path / "0.1", tmp_path / "0.2"])]
    assert names == [f"train.learner=fpdgd:learning_rate={rate}" for rate in (0.1, 0.2)]
    assert [one.name for one in read_systems([tmp_path / "c", tmp_path / "0.1"])] == [
        "attack=yes",
        "attack=no",
    ]
    assert without_shared_parameters(["pdgd:batch=1,rate=2", "dbgd:rate=1", "pdgd:batch=1,rate=1"]) == {
        "pdgd:batch=1,rate=2": "pdgd:rate=2",
        "dbgd:rate=1": "dbgd",
        "pdgd:batch=1,rate=1": "pdgd:rate=1",
    }
    assert without_shared_parameters(["pdgd:x=1", "coltr"]) == {"pdgd:x=1": "pdgd", "coltr": "coltr"}


def test_the_folder_names_what_the_spec_does_not(tmp_path: Path) -> None:
    for name in ("old/run", "new/run", "new/other"):
        write_system(tmp_path / name, [0.3, 0.1])
    old, new, other = (tmp_path / name for name in ("old/run", "new/run", "new/other"))
    assert [one.name for one in read_systems([old, other])] == ["run", "other"]
    assert [one.name for one in read_systems([old, new])] == [str(old), str(new)]
    write_system(tmp_path / "third", [0.3, 0.1], **chain(1.0))
    names = [one.name for one in read_systems([old, other, tmp_path / "third"])]
    assert names[:2] == ["defense=none (run)", "defense=none (other)"]
    assert names[2].startswith("defense=clip")


def test_one_system_or_the_same_run_twice_is_refused(tmp_path: Path) -> None:
    plan = write_system(tmp_path / "a", [0.3, 0.1])
    inner = tmp_path / "a" / plan.specs[1].hash[:12]
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(UsageError, match="only one system"):
        read_systems([tmp_path / "a"])
    for again in (tmp_path / "a", tmp_path / "link", inner, tmp_path / "x" / ".." / "a"):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="given twice"):
            read_systems([tmp_path / "a", again])


# --- pairs ----------------------------------------------------------------------------------------


def test_pairs_share_data_fold_seed_and_repetition(tmp_path: Path) -> None:
    write_system(tmp_path / "a", [0.1, 0.2, 0.3, 0.4], **PERFECT)
    write_system(tmp_path / "b", [0.5, 0.6, 0.7], first=1, **NOISY)
    a, b = read_systems([tmp_path / "a", tmp_path / "b"])
    lost = r"train.click_model=informational: no Run of repetition 0, seed 1.*--paired-only"
    with pytest.raises(UsageError, match=lost):
        match_runs(a, b)
    both = match_runs(a, b, paired_only=True)
    assert [one.repetition for one in both] == [1, 2, 3]
    assert [a.runs[one].metrics["offline_ndcg@10"] for one in both] == [0.2, 0.3, 0.4]
    assert [b.runs[one].metrics["offline_ndcg@10"] for one in both] == [0.5, 0.6, 0.7]


def fold(number: int) -> dict[str, Any]:
    return {"data": {"source": "x", "fold": number}}


@pytest.mark.parametrize(
    ("mine", "yours", "told"),
    [
        ({"seed": 1}, {"seed": 2}, "no Run of repetition 0, seed 1"),
        ({"data": {"source": "x"}}, {"data": {"source": "y"}}, "different data, x and y"),
        (fold(1), fold(2), "different data, x fold 1 and x fold 2"),
    ],
)
def test_what_is_no_pair_is_told(
    tmp_path: Path, mine: dict[str, Any], yours: dict[str, Any], told: str
) -> None:
    write_system(tmp_path / "a", [0.1, 0.2], **mine)
    write_system(tmp_path / "b", [0.1, 0.2], **yours)
    a, b = read_systems([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(UsageError, match=told):
        match_runs(a, b)
    with pytest.raises(UsageError, match="expected"):
        match_runs(a, b, paired_only=True)


def test_the_content_of_the_data_counts_and_not_their_place(tmp_path: Path) -> None:
    for name, source, content in (("a", "here", "1"), ("b", "there", "1"), ("c", "here", "2")):
        table = table_of(rounds_of(0.5), data={"source": source})
        for i in range(2):
            spec = Spec.parse({**table, "repetition": i})
            write_run(tmp_path / name / spec.hash[:12], rounds_of(0.5), spec, fingerprint=content)
        plan = Spec.parse(table).toml.replace("repetition = 0\n", "")
        (tmp_path / name / "plan.toml").write_text(
            f"{plan}\n[[cells]]\nrepetition = 0\n[[cells]]\nrepetition = 1\n"
        )
    a, b = read_systems([tmp_path / "a", tmp_path / "b"])
    assert len(match_runs(a, b)) == 2
    a, c = read_systems([tmp_path / "a", tmp_path / "c"])
    with pytest.raises(UsageError, match="different data"):
        match_runs(a, c)


def test_one_pair_is_too_few(tmp_path: Path) -> None:
    write_system(tmp_path / "a", [0.1], **PERFECT)
    write_system(tmp_path / "b", [0.2], **NOISY)
    with pytest.raises(UsageError, match=r"1 pair of Runs.*expected 2 or more"):
        match_runs(*read_systems([tmp_path / "a", tmp_path / "b"]))
