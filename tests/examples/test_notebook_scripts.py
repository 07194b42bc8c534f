"""The scripts of the gallery are notebooks too; they run as printed, in a folder of their own."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples" / "notebook").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_and_in_the_gallery(script: Path) -> None:
    assert len(script.read_text().splitlines()) < 60
    page = (ROOT / "docs" / "notebook.md").read_text()
    picture = f"static/gallery-{script.stem.replace('_', '-')}.svg"
    assert f"`{script.name}`" in page
    assert f"]({picture})" in page
    assert (ROOT / "docs" / picture).is_file()
    assert f"<generated/notebooks/{script.stem}.ipynb>`" in page


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_a_notebook_with_text_before_code(script: Path) -> None:
    before, *cells = re.split(r"^# %%(.*)\n", script.read_text(), flags=re.MULTILINE)
    kinds, texts = cells[::2], cells[1::2]
    assert not before
    assert kinds == [" [markdown]", ""] * (len(kinds) // 2)
    assert texts[0].startswith("# # ")
    assert all(line.startswith("#") for text in texts[::2] for line in text.splitlines() if line)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_and_saves_its_picture(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert ".summary(full=True) also shows" in capsys.readouterr().out
    assert "<svg" in (tmp_path / f"{script.stem}.svg").read_text()
