"""Reports in runs of MLflow and Weights & Biases: what is logged, under which names, and what is refused."""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import foltr_audit as fa
from foltr_audit.errors import UsageError
from foltr_audit.report.tracking import row_names

SMALL = {"data": {"source": "synthetic:mq2007:30"}, "population": {"clients": 10}, "train": {"rounds": 2}}
KINDS = (
    *("attack", "train", "audit", "compare", "calibrate", "list", "recommend", "check"),
    *("membership", "unlearn", "function"),
)
Metrics = dict[str, list[tuple[int | None, float]]]


class ChangedError(Exception):
    """Raised as both trackers do, where a value of the settings would change."""


def keep(settings: dict[str, Any], new: dict[str, Any]) -> None:
    if any(settings.get(name, value) != value for name, value in new.items()):
        raise ChangedError
    settings.update(new)


@dataclass
class MLflow:
    """A run of the module `mlflow`, with the rules of its `utils/validation.py` and its SQL store."""

    settings: dict[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=lambda: defaultdict(list))
    tags: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def log_params(self, params: dict[str, Any], synchronous: bool | None = None) -> None:
        assert all(self.is_name(name) and len(str(value)) <= 6000 for name, value in params.items())
        keep(self.settings, params)

    def log_metrics(
        self, metrics: dict[str, float], step: int | None = None, synchronous: bool | None = None
    ) -> None:
        for name, value in metrics.items():
            assert self.is_name(name)
            assert math.isfinite(value)  # else stored as another number
            self.metrics[name].append((step, value))

    def set_tags(self, tags: dict[str, Any], synchronous: bool | None = None) -> None:
        assert all(self.is_name(name) and isinstance(value, str) for name, value in tags.items())
        self.tags.update(tags)

    def log_artifact(
        self, local_path: str, artifact_path: str | None = None, run_id: str | None = None
    ) -> None:
        self.files |= {path.name: path.read_text() for path in Path(local_path).iterdir()}

    @staticmethod
    def is_name(name: str) -> bool:
        return (
            re.fullmatch(r"[/\w.\- ]*", name) is not None
            and posixpath.normpath(name) == name
            and not name.startswith(("/", ".."))
            and len(name) <= 250
        )


@dataclass
class WandbRun:
    """A run of Weights & Biases, or its module while there is one."""

    settings: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Any:
        def update(d: dict[str, Any], allow_val_change: bool | None = None) -> None:
            assert allow_val_change is False  # None allows it in a notebook
            keep(self.settings, d)

        return SimpleNamespace(update=update)

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        self.history.append(data)

    def save(self, glob_str: str, base_path: str | None = None, policy: str = "live") -> None: ...

    def log_artifact(
        self,
        artifact_or_path: str,
        name: str | None = None,
        type: str | None = None,  # noqa: A002  its name there
    ) -> None:
        self.files |= {path.name: path.read_text() for path in Path(artifact_or_path).iterdir()}


def numbers(row: dict[str, Any]) -> int:
    """How many numbers a row has, bounds of intervals too."""
    told = {name: value for name, value in row.items() if name not in ("round", "run", "candidate")}
    several = (value if name.endswith("_ci95") and value else [value] for name, value in told.items())
    return sum(type(value) in (int, float) for values in several for value in values)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_the_main_rows_is_logged_under_a_name_of_its_own(
    kind: str, reports: dict[str, Any]
) -> None:
    found, mlflow, wandb = reports[kind], MLflow(), WandbRun()
    found.log(mlflow)
    found.log(wandb)
    asked = sum(map(numbers, found.rows()))
    steps = [data for data in wandb.history if any(name.endswith("/round") for name in data)]
    assert sum(map(len, wandb.history)) - len(steps) == asked
    infinite = sum(math.isinf(value) for data in wandb.history for value in data.values())
    assert sum(map(len, mlflow.metrics.values())) == asked - infinite
    assert (len(mlflow.tags) > 0) == (infinite > 0)
    assert set(mlflow.tags.values()) <= {"inf", "-inf"}
    assert mlflow.files == wandb.files
    texts = {Path(name).suffix: text for name, text in mlflow.files.items()}
    assert texts == {".html": found.html(), ".json": found.json()}


def test_names_of_an_attack_do_not_depend_on_other_rows() -> None:
    spec = fa.Spec.parse({**SMALL, "attack": {"methods": ["map"]}}, "")
    few, more = MLflow(), MLflow()
    fa.attack(spec, click_models="perfect").log(few)
    found = fa.attack(spec, click_models=["perfect", "navigational"])
    found.log(more)
    assert few.metrics.keys() < more.metrics.keys()
    row: Any = next(
        row for row in found.rows() if (row["method"], row["click_model"]) == ("map", "navigational")
    )
    assert more.metrics["attack/map/navigational/auc"] == [(0, row["auc"])]
    assert more.metrics["attack/map/navigational/auc_ci95_low"] == [(0, row["auc_ci95"][0])]
    assert (
        more.settings["attack/spec_hash"]
        == spec.having({"attack.click_models": ["perfect", "navigational"]}).hash
    )
    assert more.settings["attack/train.rounds"] == "2"


def test_long_settings_are_cut_for_mlflow(reports: dict[str, Any]) -> None:
    mlflow, wandb = MLflow(), WandbRun()
    for tracker in (mlflow, wandb):
        replace(reports["attack"], config={"notes": {"long": "x" * 7000}}).log(tracker)
    assert mlflow.settings["attack/notes.long"] == "x" * 6000
    assert wandb.settings["attack"]["notes"]["long"] == "x" * 7000


def test_a_training_is_a_curve() -> None:
    found, mlflow, wandb = fa.simulate(SMALL), MLflow(), WandbRun()
    found.log(mlflow)
    found.log(wandb)
    curve = [(row["round"], row["offline_ndcg@10"]) for row in found.rows()]
    assert mlflow.metrics["train/offline_ndcg_at_10"] == curve
    assert [(data["train/round"], data["train/offline_ndcg_at_10"]) for data in wandb.history] == curve
    assert mlflow.tags == {"train/eps_claimed": "inf"}
    assert wandb.settings["train"]["train"]["rounds"] == 2


@pytest.mark.parametrize("tracker", [MLflow, WandbRun])
def test_a_run_takes_one_report_of_each_kind(tracker: Any) -> None:
    """The same again changes nothing; of another one nothing gets in."""
    one, other = (fa.calibrate(eps, parameters=46, mechanisms=["laplace"]) for eps in (1.0, 2.0))
    run, once = tracker(), tracker()
    one.log(run)
    one.log(once)
    with pytest.raises(ChangedError):
        other.log(run)
    assert run == once
    fa.list_defenses().log(run)
    one.log(run)
    assert run.settings.keys() > once.settings.keys()


@pytest.mark.parametrize("given", [None, 3, json, SimpleNamespace(log=print, log_artifact=print)])
def test_what_is_no_tracker_is_refused(given: object) -> None:
    with pytest.raises(
        UsageError, match=r"^log: \w+; expected the module mlflow, the module wandb, or a run"
    ):
        fa.list_defenses().log(given)


ROWS = [
    {"method": "a@b", "eps": 1.0, "defense": "x", "auc": 0.5},
    {"method": "a@b", "eps": 2.0, "defense": "y", "auc": 0.6},
]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (ROWS[:1], ["a_at_b"]),
        (ROWS, ["a_at_b/eps_1", "a_at_b/eps_2"]),
        ([{"method": "a:b", "on": "x"}, {"method": "a=b", "on": "y"}], ["a_b/x", "a_b/y"]),
        ([{"method": "a", "round": n} for n in range(3)], ["a"] * 3),
        ([{"method": "../.."}, {"method": "/"}], ["__1", "__2"]),
        ([{"method": "a"}, {"method": "a"}], ["a_1", "a_2"]),
        ([{"method": "a" * 300 + end} for end in "xy"], ["a" * 180 + "_1", "a" * 180 + "_2"]),
    ],
)
def test_rows_are_named_by_what_tells_them_apart(rows: list[dict[str, Any]], names: list[str]) -> None:
    assert row_names(rows, ("method",)) == names


@pytest.mark.filterwarnings("ignore")
def test_mlflow_itself_takes_every_report(
    reports: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri("sqlite:///tracking.db")
    with mlflow.start_run() as run:
        for found in reports.values():
            found.log(mlflow)
        with pytest.raises(mlflow.exceptions.MlflowException, match="calibrate/report_hash"):
            fa.calibrate(2.0, parameters=46).log(mlflow)
    data, expected = mlflow.get_run(run.info.run_id).data, MLflow()
    for found in reports.values():
        found.log(expected)
    assert data.metrics == {name: values[-1][1] for name, values in expected.metrics.items()}
    assert data.params == expected.settings
    assert expected.tags.items() <= data.tags.items()
    files = {path.name: path.read_text() for path in tmp_path.rglob("artifacts/*/*")}
    assert files == expected.files


@pytest.mark.filterwarnings("ignore")
def test_wandb_itself_takes_every_report(
    reports: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MODE": "offline", "SILENT": "true", "DIR": str(tmp_path)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    expected = WandbRun()
    with wandb.init(project="tests") as run:
        for place, found in enumerate(reports.values()):
            found.log(wandb if place % 2 else run)
            found.log(expected)
        summary, config = dict(run.summary), dict(run.config)
        with pytest.raises(wandb.errors.Error, match="calibrate"):
            fa.calibrate(2.0, parameters=46).log(run)
    last = {name: value for data in expected.history for name, value in data.items()}
    assert {name: summary[name] for name in last} == last
    assert config == json.loads(json.dumps(expected.settings))
