"""What mkdocs has to be told of this project: its navigation, the pages outside `rules/`, the roles of examples."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from torchperf_lint.engine import registry
from torchperf_lint.engine.declare import Category

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parent.parent
HOME, RULES, CONTRIBUTING = "index.md", "rules.md", "contributing.md"
PAGES = {
    "README.md": HOME,
    "rules/README.md": RULES,
    "CONTRIBUTING.md": CONTRIBUTING,
    **{f"docs/{page.name}": page.name for page in sorted((ROOT / "docs").glob("*.md"))},
}
"""By the path in the repository, what the site calls a document that is no page of a rule."""

GUIDES: dict[str, dict[str, str]] = {
    "Using it": {
        "User guide": "guide",
        "Configuration": "configuration",
        "Suppressing findings": "suppressing",
        "Output": "output",
        "Old code": "adoption",
        "Notebooks": "notebooks",
        "Editors": "editors",
        "Python library": "library",
        "Rules of your own": "plugins",
    },
    "Understanding it": {
        "How a rule decides": "decisions",
        "Why a line is reported, or is not": "why",
        "What a finding weighs": "weights",
        "The project around a file": "project",
        "Questions and answers": "faq",
    },
    "Trusting it": {
        "Fixes": "fixes",
        "Why a finding has no fix": "no-fix",
        "Verify and profile": "verify",
        "Accuracy": "accuracy",
        "Comparison with other tools": "comparison",
    },
}
"""The navigation: by section and title, the page of `docs/`."""

_ROLES = {"bad": "reported", "good": "not reported", "setup": "before both"}
_FENCE = re.compile(r"^```python (bad|good|setup)(.*)$", re.MULTILINE)
_TARGET = re.compile(r"\b(torch\w*)=([\d.]+)")
_LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:|#)([^)#]+)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation: a section for each category, the rules in the order of their codes."""
    sections: dict[Category, list[dict[str, str]]] = {}
    for rule in registry.all_rules():
        page = f"{rule.category.name.lower()}/{rule.stem}.md"
        sections.setdefault(rule.category, []).append({f"{rule.code} {rule.name}": page})
    rules: list[Any] = [
        {category.name.capitalize(): sections[category]} for category in Category if category in sections
    ]
    guides = [
        {section: [{title: f"{name}.md"} for title, name in entries.items()]} for section, entries in GUIDES.items()
    ]
    config.nav = [
        {"Start": HOME},
        *guides,
        {"Rules": [{"All rules": RULES}, *rules]},
        {"Contributing": [{"Contributing": CONTRIBUTING}, {"Architecture": "architecture.md"}]},
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents outside `rules/`, and give the table of the rules, a README too, a name of its own."""
    table = files.get_file_from_path("README.md")
    assert table is not None
    files.remove(table)
    for path, name in PAGES.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_relinked(text, posixpath.dirname(path))))
    style = (ROOT / "docs" / "site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "site.css", content=style))
    return files


def on_page_markdown(markdown: str, **context: Any) -> str:
    """Turn the role of an example, which follows the language of its fence, into a title above it."""
    return _FENCE.sub(_titled, markdown)


def _titled(fence: re.Match[str]) -> str:
    targets = [f"{package} {version}" for package, version in _TARGET.findall(fence[2])]
    title = ", ".join([_ROLES[fence[1]], *(f"with {target}" for target in targets)])
    return f'```python title="{title}"'


def _relinked(text: str, folder: str) -> str:
    """The text of a document in that folder, with links to pages of the site; other files are named without a link."""

    def relinked(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[2]))
        page = PAGES.get(path)
        if page is None and path.startswith("rules/") and path.endswith(".md"):
            page = path.removeprefix("rules/")
        return link[1] if page is None else f"[{link[1]}]({page}{link[3] or ''})"

    return _LINK.sub(relinked, text)
