"""The page of a comparison in a real browser: nothing fails, nothing is fetched, nothing sticks out."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from foltr_audit.report.page import html_page, page_of
from tests.fixtures.comparisons import report, setting, warned
from tests.report.test_page import MADE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")]

QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-pings"),
    *("--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage", "--enable-logging=stderr"),
    *("--disable-features=NetworkTimeServiceQuerying", "--host-resolver-rules=MAP * ~NOTFOUND"),
    *("--allow-file-access-from-files", "--virtual-time-budget=5000"),
)

OWN = ("file:", "data:", "about:", "chrome", "devtools:")
"""What addresses that need no network begin with."""

NOBODY = "not an origin"
"""What a net log calls the page behind a request of the browser itself."""

MEASURE = """<!DOCTYPE html><body><iframe src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<pre id="found"></pre><script>
document.querySelector("iframe").addEventListener("load", (event) => {{
  const root = event.target.contentDocument.documentElement;
  const out = [...root.querySelectorAll("main > section > *")].filter(
    (one) => one.getBoundingClientRect().right > root.clientWidth + 1);
  const widths = `width ${{root.clientWidth}} of ${{root.scrollWidth}}`;
  document.getElementById("found").textContent = `${{widths}}, out ${{out.length}}`;
}});
</script></body>"""


class Browsed:
    """What a browser did with an address."""

    def __init__(self, folder: Path, address: str, *options: str) -> None:
        log = folder / "net.json"
        kept = (f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}")
        done = subprocess.run(
            [str(CHROMIUM), *QUIET, *kept, *options, address],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=folder,
        )
        assert done.returncode == 0, done.stderr
        self.dom = done.stdout
        self.console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        self.fetched = set(_asked_by_pages(json.loads(log.read_text(encoding="utf-8"))))


def _asked_by_pages(log: dict[str, Any]) -> Iterator[str]:
    """Addresses that a page asked for, without those that the browser asks for by itself."""
    for event in log["events"]:
        found = event.get("params", {})
        by_a_page = found.get("initiator", NOBODY) != NOBODY
        if "url" in found and by_a_page and not found["url"].startswith(OWN):
            yield found["url"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several epsilons, worlds and groups, with long names."""
    long = "a-defense-with-a-name+that-is-much-longer-than-any-column-of-a-table-should-be"
    pools = [
        setting(name, eps, auc=auc, click_model=clicks, **warned("x" * 60))
        for clicks in ("perfect", "informational")
        for name, eps, auc in (("none", None, 0.99), (long, 1.2, 0.55), (long, 4.5, 0.7))
    ]
    path = tmp_path_factory.mktemp("browser") / "page.html"
    path.write_text(html_page(page_of(report(*pools), *MADE)), encoding="utf-8")
    return path


def test_no_error_and_no_request(page: Path, tmp_path: Path) -> None:
    seen = Browsed(tmp_path, page.as_uri(), "--dump-dom")
    assert "</html>" in seen.dom
    assert "ends at .400" in seen.dom, "learning curves are drawn"
    assert seen.console == []
    assert not seen.fetched


def test_errors_and_requests_would_be_seen(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text('<img src="https://picture.invalid/x.png"><script>console.error("oh"); nothing()</script>')
    seen = Browsed(tmp_path, bad.as_uri(), "--dump-dom")
    assert len(seen.console) >= 2
    assert any("picture.invalid" in url for url in seen.fetched)


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_sticks_out_of_the_window(page: Path, tmp_path: Path, width: int) -> None:
    frame = tmp_path / "frame.html"
    frame.write_text(MEASURE.format(page=page.as_uri(), width=width))
    seen = Browsed(tmp_path, frame.as_uri(), "--dump-dom", "--window-size=1400,1000")
    assert f"width {width} of {width}, out 0" in seen.dom


def test_something_that_sticks_out_would_be_seen(tmp_path: Path) -> None:
    wide, frame = tmp_path / "wide.html", tmp_path / "frame.html"
    wide.write_text("<!DOCTYPE html><main><section><p style='width: 900px'>x</p></section></main>")
    frame.write_text(MEASURE.format(page=wide.as_uri(), width=390))
    seen = Browsed(tmp_path, frame.as_uri(), "--dump-dom", "--window-size=1400,1000")
    assert "width 390 of 9" in seen.dom
    assert "out 1" in seen.dom


@pytest.mark.parametrize("width", [390, 1280])
def test_it_can_be_seen(page: Path, tmp_path: Path, width: int) -> None:
    picture = tmp_path / "seen.png"
    Browsed(tmp_path, page.as_uri(), f"--screenshot={picture}", f"--window-size={width},2000")
    seen = imread(picture)
    assert seen.shape[:2] == (2000, width)
    dark = (seen[..., :3].mean(axis=2) < 0.5).mean()
    assert 0.005 < dark < 0.5  # words and lines on paper
