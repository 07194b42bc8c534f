"""Exceptions in plug-ins of the user's: one line that says who failed and where, and the user's frames."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from traceback import extract_tb
from typing import Any, ClassVar

import pytest
from foltr_audit.attacks.olsr import OLSR

import foltr_audit as fa
from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import import_class
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.judge import task
from tests.fixtures.command import Done, run
from tests.fixtures.plugin_packages import Installer

SMALL = ["--data", "synthetic:mq2007:30", "--clients", "10", "--rounds", "1", "--click-model", "perfect"]
SPEC: dict[str, Any] = {
    "data": {"source": "synthetic:mq2007:30"},
    "population": {"clients": 10},
    "train": {"rounds": 1},
    "attack": {"methods": ["map"], "click_models": ["perfect"]},
}

BAD = '''
from typing import ClassVar
import numpy as np
import HELPER
from foltr_audit.inference.linear_systems import least_squares
from foltr_audit.plugins import Attack, ClickModel, Defense, Inference, ModelLearner, Server


class Oops(Attack):
    """Fails as it is told."""

    needs: ClassVar = frozenset({"shown"})
    how: str = "division"

    def infer(self, view, rng):
        return getattr(self, self.how)()

    def division(self):
        return 1 / 0  # here: division

    def helper(self):
        return HELPER.inverse(0)

    def library(self):
        return np.linalg.norm(np.zeros((2, 2)), axis=7)  # here: library

    def ours(self):
        return least_squares(np.zeros((3, 2)), np.zeros(4), 0.0)  # here: ours

    def answer(self):
        return Inference(scores=np.zeros(3))  # here: answer

    def end_of_file(self):
        raise EOFError  # here: end_of_file

    def leave(self):
        raise SystemExit(0)  # here: leave

    def memory(self):
        raise MemoryError

    def ctrl_c(self):
        raise KeyboardInterrupt

    def refusal(self):
        from foltr_audit.errors import UsageError
        raise UsageError("it is no day for this")


class Fine(Attack):
    """Fails nowhere."""

    needs: ClassVar = frozenset({"shown"})

    def infer(self, view, rng):
        return Inference(scores=np.zeros(view.shown.shape), guess=view.is_document)


class Index(Defense):
    """Has another idea of models."""

    stages: ClassVar = ("message",)

    def on_message(self, models, context):
        return models[:, 1000]  # here: Index


class Mixed:
    """Whatever it is mixed into."""

    def on_message(self, models, context):
        return len(3)  # here: Mixed


class Absent(Server):
    """Asks for what is not there."""

    def send(self, context):
        return context.nothing  # here: Absent


class Lost(ModelLearner):
    """Does not learn."""

    def local_step(self, *given):
        raise RuntimeError("cannot\\nlearn")  # here: Lost


class Never(ClickModel):
    """Clicks nothing, and not even that."""

    def click(self, labels, largest_label, streams, step):
        return labels > (lambda: {}["threshold"])()  # here: Never


def step(model, features, clicks):
    return np.zeros(3) + np.zeros(4)  # here: step
'''
HEIRS = '''
from typing import ClassVar
from MODULE import Index, Mixed
from foltr_audit.plugins import Defense


class Inherits(Index):
    """Fails in the class before it."""


class Mixes(Mixed, Defense):
    """Fails in a class that is no plug-in."""

    stages: ClassVar = ("message",)
'''


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "bad.py"
    # By their own names, these modules would count as code of the tests, which is hashed.
    path.write_text(BAD.replace("HELPER", "helper_of_bad"))
    path.with_name("heirs_of_bad.py").write_text(HEIRS.replace("MODULE", "bad"))
    path.with_name("helper_of_bad.py").write_text("def inverse(x):\n    return 1 / x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield path
    for name in ("bad", "heirs_of_bad", "helper_of_bad"):
        sys.modules.pop(name, None)


def oops(how: str = "division") -> Any:
    """An object of the attack that fails."""
    return import_class("bad:Oops").model_validate({"how": how})


def line_of(mark: str) -> int:
    return next(
        number for number, text in enumerate(BAD.splitlines(), start=1) if text.endswith(f"# here: {mark}")
    )


def told(done: Done, line: str) -> str:
    """The frames below the only line of the error, which are all of the user's files."""
    assert (done.code, done.out) == (2, "")
    first, *frames = done.err.strip().splitlines()
    assert first == f"error: {line}"
    places = [text for text in frames if text.startswith("  File ")]
    assert places
    assert all(re.match(r'  File ".*(bad|helper_of_bad)\.py", line \d+, in ', text) for text in places)
    return places[-1]


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("division", "ZeroDivisionError: division by zero"),
        ("library", "AxisError: axis 7 is out of bounds for array of dimension 2"),
        ("end_of_file", "EOFError: no message"),
        ("leave", "SystemExit: 0"),
        ("answer", "TypeError: Inference.__init__() missing 1 required keyword-only argument: 'guess'"),
    ],
)
def test_an_attack_that_fails_is_named_with_its_line(how: str, what: str, bad: Path) -> None:
    done = run("attack", *SMALL, "--method", f"bad.py:Oops:how={how}")
    last = told(done, f"attack Oops failed in bad.py:{line_of(how)}: {what}")
    assert last.endswith(f"line {line_of(how)}, in {how}")


def test_wrong_arguments_for_our_functions_are_the_callers(bad: Path) -> None:
    """The exception is raised in a frame of ours, beneath theirs."""
    done = run("attack", *SMALL, "--method", "bad.py:Oops:how=ours")
    assert f"attack Oops failed in bad.py:{line_of('ours')}: ValueError: " in done.err
    assert "linear_systems.py" not in done.err


def test_files_beside_that_of_a_plug_in_are_the_users_too(bad: Path) -> None:
    done = run("attack", *SMALL, "--method", "bad.py:Oops:how=helper")
    last = told(done, "attack Oops failed in helper_of_bad.py:2: ZeroDivisionError: division by zero")
    assert last.endswith("in inverse")
    assert "in infer" in done.err


@pytest.mark.parametrize(
    ("options", "who", "mark", "what"),
    [
        (["--defense", "bad.py:Index"], "defense Index", "Index", "IndexError: index 1000 is out of bounds"),
        (["--defense", "heirs_of_bad.py:Inherits"], "defense Inherits", "Index", "IndexError: index 1000"),
        (["--defense", "heirs_of_bad.py:Mixes"], "defense Mixes", "Mixed", "TypeError: object of type 'int'"),
        (
            ["--server", "bad.py:Absent"],
            "server Absent",
            "Absent",
            "AttributeError: 'RoundContext' object has",
        ),
        (["--learner", "bad.py:Lost"], "learner Lost", "Lost", "RuntimeError: cannot learn"),
        (["--click-model", "bad.py:Never"], "click model Never", "Never", "KeyError: 'threshold'"),
    ],
)
def test_other_plug_ins_are_named_too(options: list[str], who: str, mark: str, what: str, bad: Path) -> None:
    done = run("train", *SMALL[:-2], *options)
    assert done.code == 2
    assert done.err.startswith(f"error: {who} failed in bad.py:{line_of(mark)}: {what}")
    assert "foltr_audit/" not in done.err


def test_what_an_object_raises_is_the_cause_of_the_error(bad: Path) -> None:
    with pytest.raises(PluginError) as caught:
        fa.attack(SPEC, methods=[oops()])
    assert str(caught.value) == (
        f"attack Oops failed in bad.py:{line_of('division')}: ZeroDivisionError: division by zero"
    )
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert [frame.name for frame in extract_tb(cause.__traceback__)][-2:] == ["infer", "division"]


class Here(Defense):
    """A class of this module, which fails in a function of it."""

    stages: ClassVar[tuple[str, ...]] = ("message",)  # type: ignore[assignment]

    def on_message(self, models: Any, context: Any) -> Any:
        return _beyond(models)


def _beyond(models: Any) -> Any:
    return models[:, 1000]


def test_the_file_of_a_package_is_named_with_its_folders() -> None:
    with pytest.raises(
        PluginError, match=r"^defense Here failed in tests/plugins/test_failing_plugins\.py:\d+: I"
    ):
        fa.simulate(SPEC, defense=[Here()])


def test_an_installed_plug_in_is_named_among_files_of_others(install: Installer, tmp_path: Path) -> None:
    source = BAD.replace("import HELPER\n", "").replace(
        "needs: ClassVar = frozenset", 'name: ClassVar = "their-oops"\n    needs: ClassVar = frozenset'
    )
    groups = {"foltr_audit.attacks": {"their-oops": "bad_lab:Oops"}}
    install(tmp_path / "lab", "bad-lab", groups, {"bad_lab": source})
    done = run("attack", *SMALL, "--method", "their-oops:how=library")
    assert re.match(r"error: attack their-oops failed in bad_lab\.py:\d+: AxisError: axis 7", done.err)
    assert "numpy" not in done.err


@pytest.mark.parametrize("jobs", [1, 2])
def test_other_cells_of_a_comparison_go_on(jobs: int, bad: Path) -> None:
    """Also where the traceback was in another process."""
    options = ["--defense", "none", "--defense", "bad.py:Index", "--no-audit", "--runs", "1", "--json"]
    done = run("compare", *SMALL, *options, "--jobs", jobs)
    assert done.code == 2
    failed = {row["why"].partition(": index")[0] for row in done.json()["failed"]}
    assert failed == {f"defense Index failed in bad.py:{line_of('Index')}: IndexError"}
    assert [row["name"] for row in done.json()["results"]] == ["none"]
    assert done.err.splitlines()[-1].startswith("error: ")


def test_errors_that_say_enough_stay(bad: Path) -> None:
    def ended(how: str) -> tuple[int, str]:
        done = run("attack", *SMALL, "--method", f"bad.py:Oops:how={how}")
        return done.code, done.one_error()

    assert ended("refusal") == (2, "error: it is no day for this")
    assert ended("memory") == (1, "error: not enough memory; take fewer queries or clients")
    assert ended("ctrl_c")[0] == 130
    with pytest.raises(UsageError, match=r"^it is no day for this$") as caught:
        fa.attack(SPEC, methods=[oops("refusal")])
    assert type(caught.value) is UsageError
    with pytest.raises(KeyboardInterrupt):
        fa.attack(SPEC, methods=[oops("ctrl_c")])


def test_a_bug_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, bad: Path) -> None:
    """Also between two calls of a plug-in."""

    def broken(*given: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(task, "one_of", broken)
    with pytest.raises(ZeroDivisionError, match=r"^ours$"):
        run("attack", *SMALL, "--method", "bad.py:Fine")
    with pytest.raises(ZeroDivisionError, match=r"^ours$"):
        fa.attack(SPEC, methods=["bad:Fine"])
    monkeypatch.setattr(OLSR, "infer", broken)
    with pytest.raises(ZeroDivisionError, match=r"^ours$"):
        run("attack", *SMALL, "--method", "olsr")


def test_a_client_step_of_a_file_is_named(bad: Path, tmp_path: Path) -> None:
    assert run("attack", *SMALL, "--method", "map", "--out", tmp_path / "run").code == 0
    done = run("attack", "--trace", tmp_path / "run", "--method", "map", "--client-step", "bad.py:step")
    told(
        done,
        f"client step bad.py:step failed in bad.py:{line_of('step')}: ValueError: operands could not be "
        "broadcast together with shapes (3,) (4,)",
    )
