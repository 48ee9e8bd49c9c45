"""The page of findings in a real Chromium: on a phone and a desk, by light and dark, on paper."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import other_programs
from linting import ROOT

pytestmark = pytest.mark.consumer
try:
    from playwright import sync_api
except ImportError:  # where the browser is not asked for
    sync_api = None

FLAGS = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
WIDTHS = {"phone": 400, "desk": 1400}

BEYOND = """() => {
  const width = document.documentElement.clientWidth;
  const scrolled = (each) => each.closest(".code") !== null;
  return [...document.querySelectorAll("body *")]
    .filter((each) => !scrolled(each) && each.getBoundingClientRect().right > width + 1)
    .map((each) => each.outerHTML.slice(0, 120));
}"""
"""What stands out at the right; code scrolls in its own box."""

BARS = """() => [...document.querySelectorAll(".bars rect")].map((each) => {
  const box = each.getBoundingClientRect();
  return [box.width, box.height, getComputedStyle(each).fill];
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    assert sync_api is not None, "playwright is missing: pip install '.[consumers]'"
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=other_programs.found("chromium"), args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of real findings, one of them in a file with a long name and a long line."""
    folder = tmp_path_factory.mktemp("page")
    long = folder / ("a_folder_with_a_name_that_does_not_end/" * 3) / f"{'train' * 20}.py"
    long.parent.mkdir(parents=True)
    code = (ROOT / "fixtures" / "docs" / "train.py").read_text(encoding="utf-8")
    long.write_text(code.replace("total_loss", "total_loss_of_all_the_steps" * 5), encoding="utf-8")
    paths = [str(ROOT / "fixtures" / "workloads"), str(ROOT / "fixtures" / "docs"), str(folder)]
    options = ["--isolated", "--exit-zero", "--no-cache", "--select", "ALL", "--output-format", "html"]
    command = [sys.executable, "-m", "torchperf_lint", *paths, *options, "--output-file", str(folder / "page.html")]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder / "page.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_the_page_fits_and_is_quiet(browser, report: Path, width: int, scheme: str, tmp_path: Path) -> None:
    with browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page = context.new_page()
        asked, said = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(report.as_uri())
        assert re.fullmatch(r"torchperf-lint: \d\d+ findings", page.title())
        assert asked == [report.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.evaluate(BEYOND) == []
        bars = page.evaluate(BARS)
        assert len(bars) > 10
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert all(wide > 0 and high > 4 and fill != paper for wide, high, fill in bars)
        assert max(wide for wide, _, _ in bars) > width / 8
        levels = [int(part) for part in paper.removeprefix("rgb(").removesuffix(")").split(",")]
        assert (min(levels) > 200) if scheme == "light" else (max(levels) < 60)
        page.locator(".begin a").first.click()
        assert page.evaluate("document.querySelector(':target') !== null")
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert said == []


def test_the_page_can_be_printed(browser, report: Path, tmp_path: Path) -> None:
    with browser.new_context(color_scheme="dark") as context:
        page = context.new_page()
        page.goto(report.as_uri())
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        printed = page.pdf(path=tmp_path / "page.pdf", format="A4")
        assert printed.startswith(b"%PDF-")
        assert printed.count(b"/Type /Page\n") > 2
        page.set_viewport_size({"width": 700, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_page_that_does_not_fit_is_seen(browser) -> None:
    with browser.new_context(viewport={"width": 400, "height": 900}) as context:
        page = context.new_page()
        page.set_content("<main><p style='width: 800px'>wide</p></main>")
        assert page.evaluate(BEYOND) == ['<p style="width: 800px">wide</p>']
