"""The programs that tests with the mark `consumer` drive; run as a script, it says which are missing."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

BESIDE = Path(sys.executable).parent
"""Where pip puts programs of this environment."""

ANY_OF = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "nvim": ("nvim",),
    "npm": ("npm",),
    "torchperf-lint": ("torchperf-lint",),
}
"""The names that a program may have."""

INSTALLED_BY = {
    "chromium": "apt-get install chromium",
    "nvim": "pip install '.[consumers]'",
    "npm": "apt-get install npm, or Node.js 20",
    "torchperf-lint": "pip install '.[consumers]'",
}


def path_of(program: str) -> str | None:
    """The file of a program: that of this environment goes first."""
    places = os.pathsep.join([str(BESIDE), os.environ.get("PATH", os.defpath)])
    return next(filter(None, (shutil.which(name, path=places) for name in ANY_OF[program])), None)


def found(program: str) -> str:
    """The same; a test without its program fails."""
    path = path_of(program)
    assert path is not None, f"{program} is missing: {INSTALLED_BY[program]}"
    return path


def main() -> int:
    """Print a line where programs are missing; return the exit status."""
    missing = [f"{name} ({how})" for name, how in INSTALLED_BY.items() if path_of(name) is None]
    if missing:
        print(f"missing, and how to install it: {'; '.join(missing)}", file=sys.stderr)
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
