"""What hatchling builds beside copying files: the declarations of the rules, read from their modules, for the wheel."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


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
