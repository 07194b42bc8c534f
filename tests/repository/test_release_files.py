"""What a release offers to other repositories names options that exist, and passes on what it is given."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.doc_examples import ROOT, unknown_options

yaml = pytest.importorskip("yaml")


FORMATS = "--format github --format markdown=SUMMARY"


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("inputs", "given"),
    [
        ({}, f"check limits.toml {FORMATS}"),
        (
            {"LIMITS": "our limits.toml", "CONFIG": "$(touch hacked)", "OPTIONS": "--runs 2 ; touch hacked"},
            f"check 'our limits.toml' {FORMATS} --runs 2 ';' touch hacked --config '$(touch hacked)'",
        ),
        ({"JUNIT": "a b.xml"}, f"check limits.toml {FORMATS} --format 'junit=a b.xml'"),
    ],
)
def test_the_action_passes_its_inputs_on_and_runs_none(
    inputs: dict[str, str], given: str, tmp_path: Path
) -> None:
    action = read("action.yml")
    step = action["runs"]["steps"][-1]
    names = {variable: re.sub(r"\W|inputs", "", text) for variable, text in step["env"].items()}
    defaults = {variable: action["inputs"][name]["default"] for variable, name in names.items()}
    program = tmp_path / "foltr-audit"
    program.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_STEP_SUMMARY": "SUMMARY", **defaults, **inputs},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == shlex.split(given)
    assert {path.name for path in tmp_path.iterdir()} == {"foltr-audit"}


def test_no_input_of_the_action_is_a_part_of_a_script() -> None:
    action = read("action.yml")
    assert action["runs"]["using"] == "composite"
    assert not [step["run"] for step in action["runs"]["steps"] if "${{" in step.get("run", "")]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(action["inputs"])


def test_the_workflow_gives_the_action_inputs_that_it_has() -> None:
    (job,) = read("docs/examples/check.yml")["jobs"].values()
    (step,) = [step for step in job["steps"] if step.get("uses") == "./foltr-audit"]
    assert set(step["with"]) <= set(read("action.yml")["inputs"])


def test_the_hook_runs_a_command_with_options_that_exist() -> None:
    (hook,) = read(".pre-commit-hooks.yaml")
    assert hook["language"] == "python"
    assert hook["pass_filenames"] is False
    assert not unknown_options(" ".join([hook["entry"], *hook["args"]]))
    assert re.search(hook["files"], "limits.toml")
    assert not re.search(hook["files"], "a/limits.toml")
