"""What hatchling does besides copying files: the rules' declarations for the wheel, the README for package indexes."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

WHERE_FILES_ARE = "The files that are named here, such as `docs/guide.md`, are in the source distribution."


class Declarations(BuildHookInterface[Any]):
    """Puts `torchperf_lint/_declarations.json` into the wheel; a checkout keeps its own, which follow its changes."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Read the declarations, unless it is a link to the checkout that is built."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from torchperf_lint.engine import declarations, registry
        finally:
            sys.path.remove(self.root)
        self._folder = tempfile.TemporaryDirectory()
        place = Path(self._folder.name, "declarations.json")
        declarations.Modules().ship(str(place), registry.all_rules())
        build_data["force_include"][str(place)] = "torchperf_lint/_declarations.json"


class Description(MetadataHookInterface):
    """The README without links that work in the repository only, as a package index shows it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description: links lead to the source where `urls` states it, and name the file otherwise."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        told = "" if source is not None else f"\n{WHERE_FILES_ARE}\n"
        metadata["readme"] = {"content-type": "text/markdown", "text": portable(text, source) + told}


def portable(text: str, source: str | None) -> str:
    """The text with its relative links below the URL `source`; without one, with the paths in place of the links."""

    def linked(link: re.Match[str]) -> str:
        words, path, anchor = link.groups(default="")
        if source is not None:
            return f"[{words}]({source.rstrip('/')}/blob/HEAD/{path}{anchor})"
        return f"{words} (`{path}`)"

    without_comments = re.sub(r"<!--.*?-->\n", "", text)
    return re.sub(r"\[([^\]]+)\]\((?!\w+:)([^)#]+)(#[^)]*)?\)", linked, without_comments)
