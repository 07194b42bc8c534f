"""The page of a comparison in a real browser: what its script does, and that everybody can read it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from foltr_audit.privacy.observer_views import SEES
from foltr_audit.report.page import html_page, page_of
from tests.fixtures.comparisons import report, setting, warned
from tests.report.test_page import study

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")

LONG = "a-defense-with-a-name+much_longer_than_any_column:threshold=0.9,drop_after=0.5,agreement=none"
SKEWED = "skewed:batches=1/3/5/7/9,even=false,levels=5,zipf=0"

OVERLAPS = """() => {
  const all = [...document.querySelectorAll("svg text, svg .mark")];
  const name = (one) => one.textContent || "mark";
  const meet = (one, other) => {
    const [a, b] = [one, other].map((each) => each.getBoundingClientRect());
    return a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  };
  return all.flatMap((one, at) => all.slice(at + 1).filter((other) => meet(one, other)).map(
    (other) => `${name(one)} on ${name(other)}`));
}"""
"""Pairs of labels, marks and numbers of axes that lie on each other."""

STICKS_OUT = """() => {
  const { clientWidth: width, scrollWidth } = document.documentElement;
  const all = document.querySelectorAll("header *, main > section > *, .mark, svg text");
  const out = [...all].filter((one) => {
    const { left, right } = one.getBoundingClientRect();
    return right > width + 1 || left < -1;
  });
  const full = [...document.querySelectorAll("#defenses :is(th, td)")].filter(
    (one) => one.scrollWidth > one.clientWidth + 1);
  return [...out, ...full].map((one) => one.outerHTML).concat(scrollWidth > width ? ["page"] : []);
}"""
"""What lies outside the window, or outside its cell of the table."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages by name: the usual one, one of long names and odd values, and one without a result."""
    odd = [
        setting(name, eps, auc=auc, ndcg=ndcg, learner=learner, scenario=scenario, **warned("x" * 60))
        for learner in ("one", "two:with=parameters")
        for scenario in ("uniform", SKEWED)
        for name, eps, auc, ndcg in (
            *(("none", None, 1.0, 0.4), ("twin", 1.2, 1.0, 0.4), ("third", 1.2, 1.0, 0.401)),
            *((LONG, 1.2, 0.55, 0.3), ("no-ranker", 1.2, 0.6, None), ("no-attack", 1.2, None, 0.3)),
        )
    ]
    reports = {"usual": study(), "odd": report(*odd), "empty": report()}
    folder = tmp_path_factory.mktemp("pages")
    for name, compared in reports.items():
        (folder / f"{name}.html").write_text(html_page(page_of(compared)), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in reports}


@pytest.fixture
def opened(browser: Browser, pages: dict[str, Path]) -> Iterator[Any]:
    """Open a page by its name, or a text as a page, in a window of some width."""
    contexts = []

    def opened(page: str = "usual", width: int = 1280, *, text: str = "", **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        tab = context.new_page()
        if text:
            tab.set_content(text)
        else:
            tab.goto(pages[page].as_uri())
        return tab

    yield opened
    for context in contexts:
        context.close()


def cells(tab: Page, defense: str) -> list[str]:
    """The cells of a line of the table."""
    texts = tab.locator("#defenses tbody tr", has=tab.get_by_role("rowheader", name=defense)).locator("td")
    return [" ".join(text.split()) for text in texts.all_inner_texts()]


def marks(tab: Page) -> dict[str, str]:
    """What is said of each mark of the chart, by defense."""
    labels = [str(mark.get_attribute("aria-label")) for mark in tab.locator("#chart .mark").all()]
    return {label.partition(":")[0]: label for label in labels}


def unfold(tab: Page) -> None:
    tab.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    tab.wait_for_function("!document.querySelector('[data-table]:empty')")


# --- choices ----------------------------------------------------------------------------------------


def test_the_observer_moves_attack_proof_verdict_and_chart(opened: Any) -> None:
    tab = opened()
    expected = {  # verdict and cells of AUC and proof; a framed column; ceilings and marks of the chart
        "individual": ("1.2", ".550", "−.050", "AUC at most .800", 2, 2),  # noqa: RUF001
        "individual+lists": ("∞", ".750", "+.150", "nothing", 0, 2),
        "aggregate": (None, ".530", "−.070", "AUC at most .700", 1, 1),  # noqa: RUF001
    }
    for view, (proven, auc, above, proof, ceilings, drawn) in expected.items():
        tab.select_option("[name=observer]", view)
        line, said = cells(tab, "laplace"), marks(tab)["laplace"]
        assert (line[3], line[5]) == (auc, above)
        assert f"AUC {auc}" in said
        assert f"who sees: {SEES[view]} " in said
        assert f"proven for this observer: {proof}" in said
        assert tab.locator("#defenses tr.best td.seen").all_inner_texts() == ([proven] if proven else [])
        assert (tab.locator("#chart .cap").count(), tab.locator("#chart .mark").count()) == (ceilings, drawn)
        assert f"The server sees: {SEES[view]}" in tab.locator("caption").inner_text()
    assert cells(tab, "none")[3:7] == ["- not attacked", "-", "-", "-"]
    assert "none" in tab.locator("#missing").inner_text()


def test_clicks_and_epsilon_move_numbers(opened: Any) -> None:
    tab = opened()
    assert cells(tab, "laplace")[1::2] == ["1.2", ".550", "−.050", ".300 [.25, .35]", "184"]  # noqa: RUF001
    tab.select_option("[name=click_model]", "perfect")
    assert cells(tab, "laplace")[7].startswith(".500"), "no longer the worst case"
    tab.select_option("[name=click_model]", "informational")
    assert cells(tab, "laplace")[3] == ".450"
    tab.select_option("[name=eps]", "4.5")
    assert cells(tab, "laplace")[1:4:2] == ["4.5", ".480"]
    assert "informational · " in tab.locator("caption").inner_text()


def test_without_scripts_the_table_is_the_one_that_the_script_makes_first(opened: Any) -> None:
    tabs = opened("odd"), opened("odd", java_script_enabled=False)
    scripted, still = (tab.locator("#defenses").inner_text() for tab in tabs)
    assert scripted == still
    assert "no-ranker" in still
    assert "Without scripts" in tabs[1].locator("noscript").inner_text()


# --- the chart --------------------------------------------------------------------------------------


def test_values_are_shown_on_hover_and_by_keyboard(opened: Any) -> None:
    tab = opened()
    tip, none = tab.locator("#tip"), tab.locator("#chart .mark").first
    none.hover()
    assert "none" in tip.inner_text()
    assert ".790" in tip.inner_text()
    tab.mouse.move(5, 5)
    assert not tip.inner_text()
    tab.locator("#chart .mark").last.focus()
    assert ".550" in tip.inner_text()
    tab.keyboard.press("Shift+Tab")
    assert ".790" in tip.inner_text()
    tab.keyboard.press("Escape")
    assert not tip.inner_text()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["usual", "odd"])
def test_nothing_of_the_chart_lies_on_another(opened: Any, name: str, width: int) -> None:
    tab = opened(name, width)
    assert tab.locator("#chart .mark").count() >= 2
    assert tab.evaluate(OVERLAPS) == []
    assert tab.locator("#chart .label").count() == tab.locator("#chart .mark").count(), "each has a name"
    for value in ("uniform", SKEWED) if name == "odd" else ():
        tab.select_option("[name=scenario]", value)
        assert tab.evaluate(OVERLAPS) == []


def test_an_overlap_would_be_seen(opened: Any) -> None:
    texts = '<svg viewBox="0 0 300 100"><text x="9" y="50">one</text><text x="19" y="52">other</text></svg>'
    assert opened(text=texts).evaluate(OVERLAPS) == ["one on other"]


# --- folded tables ------------------------------------------------------------------------------------


def test_a_folded_table_is_sorted_by_number_with_missing_values_last(opened: Any) -> None:
    tab = opened("odd")
    assert tab.locator("[data-table] table").count() == 0, "only made when it is opened"
    tab.get_by_text("Every attack").click()
    box = tab.get_by_role("region", name="Every attack")
    head = box.locator("th", has_text=re.compile("^above guess$"))
    column = head.evaluate("(head) => head.cellIndex")
    for order in ("ascending", "descending"):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == order
        texts = [text.split()[0] for text in box.locator(f"td:nth-child({column + 1})").all_inner_texts()]
        known = [float(text.replace("−", "-")) for text in texts if text != "-"]  # noqa: RUF001
        assert 0 < len(known) < len(texts)
        assert texts[len(known) :] == ["-"] * (len(texts) - len(known))
        assert all((one <= other) == (order == "ascending") or one == other for one, other in pairwise(known))


def test_learning_curves_are_drawn(opened: Any) -> None:
    tab = opened()
    unfold(tab)
    assert "ends at .400" in str(tab.locator("#curves svg").first.get_attribute("aria-label"))


# --- everywhere, for everybody ------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_sticks_out_of_the_window(opened: Any, width: int) -> None:
    for name in ("usual", "odd", "empty"):
        tab = opened(name, width)
        unfold(tab)
        assert tab.evaluate(STICKS_OUT) == []


def test_something_that_sticks_out_would_be_seen(opened: Any) -> None:
    found = opened(width=390, text="<header><p style='width: 900px'>x</p></header>").evaluate(STICKS_OUT)
    assert found == ['<p style="width: 900px">x</p>', "page"]
    cell = f"<td style='max-width: 50px'>{'x' * 60}</td>"
    text = f"<div style='overflow: auto'><table id=defenses><tr>{cell}<td>y</td></table></div>"
    assert [found[:3] for found in opened(text=text).evaluate(STICKS_OUT)] == ["<td"]


def test_the_column_of_the_observer_is_framed_with_high_contrast(opened: Any) -> None:
    tab = opened(forced_colors="active")
    seen, other = tab.locator("#defenses td.seen").first, tab.locator("#defenses td.n:not(.seen)").first
    sides = [cell.evaluate("(cell) => getComputedStyle(cell).borderLeftWidth") for cell in (seen, other)]
    assert sides == ["3px", "0px"], "shadows are not drawn there"


AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def violations(tab: Page) -> list[str]:
    """The rules of axe-core that a page breaks."""
    tab.evaluate(AXE)
    return [each["id"] for each in tab.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_everybody_can_read_it(opened: Any, width: int, scheme: str) -> None:
    tab = opened(width=width, color_scheme=scheme)
    unfold(tab)
    assert violations(tab) == []


def test_a_violation_would_be_seen(opened: Any) -> None:
    assert "color-contrast" in violations(opened(text="<main><p style='color: #eee'>pale</p></main>"))


def heard(tab: Page) -> tuple[list[str], list[str]]:
    """Lists that are filled with the errors and the requests of a tab."""
    errors: list[str] = []
    requests: list[str] = []
    tab.on("console", lambda message: errors.append(message.text))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    return errors, requests


def test_no_error_and_no_request(opened: Any, pages: dict[str, Path]) -> None:
    tab = opened()
    errors, requests = heard(tab)
    for path in pages.values():
        tab.goto(path.as_uri())
        unfold(tab)
        for choice in tab.locator("label:not([hidden]) select").all():
            choice.select_option(index=1)
    assert errors == []
    assert requests == [path.as_uri() for path in pages.values()]


def test_errors_and_requests_would_be_seen(opened: Any) -> None:
    tab = opened(text="<p>")
    errors, requests = heard(tab)
    tab.set_content(
        '<img src="https://picture.invalid/x.png"><script>console.error("oh"); nothing()</script>'
    )
    assert len(errors) >= 2
    assert requests == ["https://picture.invalid/x.png"]


def test_it_is_printed_on_three_pages_with_what_is_chosen(opened: Any) -> None:
    tab = opened()
    tab.select_option("[name=observer]", "aggregate")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True))) <= 3
    tab.emulate_media(media="print")
    assert "The server sees: sum" in tab.locator("caption").inner_text()
    assert not tab.locator("form").is_visible()
    assert tab.locator("#chart").is_visible()
