"""`--client-step`: traces of somebody else's learner, attacked and checked by a function of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.plugins import ClientStep
from foltr_audit.core.plugins.registry import at_hand
from foltr_audit.utils.arrays import Floats
from tests.fixtures import foreign_trace, listwise_trace
from tests.fixtures.command import Done, answer, refusal, run
from tests.fixtures.foreign_trace import System


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace, and beside it a file with steps."""
    place = tmp_path_factory.mktemp("steps")
    (place / "steps.py").write_text(listwise_trace.SOURCE, encoding="utf-8")
    return listwise_trace.write(place / "trace")


def attacked(folder: Path, step: str, *more: str) -> Done:
    """The attack `map` on the trace by a step of the file."""
    named = f"{folder.parent / 'steps.py'}:{step}"
    return run("attack", "--trace", folder, "--method", "map", "--client-step", named, *more)


def exact(table: Mapping[str, Any], method: str) -> float:
    """The share of lists that an attack got right."""
    (found,) = [float(row["exact"]) for row in table["results"] if row["method"] == method]
    return found


def test_a_file_of_the_users_decodes_their_own_trace(folder: Path) -> None:
    done = attacked(folder, "step", "--method", "lad", "--json")
    assert done.code == 0
    assert {name: exact(done.json(), name) for name in ("map", "lad")} == {"map": 1.0, "lad": 1.0}
    assert done.json()["config"]["client_step"].endswith("steps.py:step")
    assert "declared facts explain 100 %" in attacked(folder, "step").out
    assert exact(fa.attack_trace(folder, ["map"], step=listwise_trace.step).plain(), "map") == 1.0


def test_a_wrong_step_shows(folder: Path) -> None:
    done = attacked(folder, "wrong", "--json")
    assert exact(done.json(), "map") < 0.2
    assert "may be wrong, or chance in it" in " ".join(done.warnings)
    steps = folder.parent / "steps.py"
    for name, code in (("wrong", 1), ("step", 0)):
        assert run("trace check-facts", folder, "--client-step", f"{steps}:{name}").code == code


def test_guesses_are_written_by_the_step(folder: Path) -> None:
    out = folder.parent / "guesses.csv"
    assert attacked(folder, "step", "--guesses", str(out)).code == 0
    lines = out.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + listwise_trace.CLIENTS * listwise_trace.K * 2  # map and first-position
    assert lines[0].split(",")[:3] == ["click_model", "method", "round"]


def test_what_is_wrong_is_one_line(folder: Path) -> None:
    short = attacked(folder, "short")
    assert short.out == ""
    assert "shape (3,); expected (15,)" in short.err
    assert "did you mean 'step'" in attacked(folder, "stap").one_error()
    unknown = run("attack --client-step pdgt --trace", folder).one_error()
    assert "unknown client step 'pdgt'" in unknown
    assert "only with --trace" in refusal("attack --client-step pdgt")
    assert "with --client-step" in run("attack --trace", folder).one_error()
    with pytest.raises(fa.FoltrAuditError, match="it is of 9 parameters, not 15"):
        fa.attack_trace(folder, ["map"], step=fa.numpy_step(listwise_trace.step, 9))


class RegisteredListwise(ClientStep):
    """The step of the trace, as a package would register it."""

    name: ClassVar[str] = "listwise"

    def updates(self, model: Floats, features: Floats, clicks: Floats) -> Floats:
        """See `ClientStep`."""
        return fa.numpy_step(listwise_trace.step).updates(model, features, clicks)


def test_a_header_may_name_a_registered_step(tmp_path: Path) -> None:
    made = listwise_trace.write(tmp_path / "trace", client_step="listwise")
    with at_hand(ClientStep, RegisteredListwise):
        assert run("trace check-facts", made).code == 0
        assert exact(fa.attack_trace(made, ["map"]).plain(), "map") == 1.0
    error = run("attack --method map --trace", made).one_error()
    assert "unknown client step 'listwise'" in error
    assert "give --client-step" in error


def test_registered_steps_are_listed() -> None:
    assert answer("list client-steps")["kind"] == "client-steps"


def test_the_opposite_of_a_step_of_pairs_shows_by_its_many_clicks(tmp_path: Path) -> None:
    """Clicks on the other documents explain it as well, since all documents form pairs."""
    system = System(clients=8, rounds=1, shares=None, seed=3)
    header, rounds = foreign_trace.header(system), foreign_trace.records(system)
    made = foreign_trace.write(tmp_path / "trace", header, rounds)

    def opposite(model: Floats, features: Floats, clicks: Floats) -> Floats:
        gradient = foreign_trace.gradient(features @ model, 0.0, clicks > 0.5, features, "all")
        return np.asarray(-0.1 * gradient)

    (facts,) = fa.attack_trace(made, ["lad"], step=opposite).facts
    assert facts["state"] == "explained"
    assert "of the shown documents would then be clicked, with sign -1" in facts["warnings"][0]
