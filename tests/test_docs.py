"""The site that `make docs` builds: every page, found by the search, its examples shown as code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from torchperf_lint.engine.registry import all_rules

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_has_its_page(site, rule):
    html = (site / rule.category.name.lower() / rule.stem / "index.html").read_text(encoding="utf-8")
    assert f"{rule.code} {rule.name}" in html
    assert 'class="filename">reported' in html
    assert "```" not in html


def test_the_search_finds_every_rule_and_the_readme(site):
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    titles = {entry["title"] for entry in entries}
    assert {f"{rule.code} {rule.name}" for rule in all_rules()} <= titles
    assert any(entry["location"] == "" and "torchperf-lint" in entry["text"] for entry in entries)


def test_the_list_of_rules_leads_to_the_pages(site):
    html = (site / "rules" / "index.html").read_text(encoding="utf-8")
    for rule in all_rules():
        assert f'<td><a href="../{rule.category.name.lower()}/{rule.stem}/">{rule.name}</a></td>' in html


def test_the_readme_leads_to_the_documents(site):
    html = (site / "index.html").read_text(encoding="utf-8")
    for page in ("rules", "guide", "contributing"):
        assert f'<a href="{page}/">' in html


def test_every_document_is_in_the_navigation(site):
    navigation = (site / "index.html").read_text(encoding="utf-8").partition("md-sidebar--primary")[2]
    for page in (ROOT / "docs").glob("*.md"):
        assert re.search(rf'<a href="{page.stem}/" class="md-nav__link">', navigation), page.name


def test_the_architecture_page_is_linked_and_links_back(site):
    assert '<a href="../architecture/">' in (site / "contributing" / "index.html").read_text(encoding="utf-8")
    html = (site / "architecture" / "index.html").read_text(encoding="utf-8")
    assert 'href="../contributing/#adding-a-rule"' in html
    assert "`on_gpu` is called here in every" in html
