"""Keeps what runs on the simulated device gave, so that a program runs again only where something of it has changed.

A run's key is a digest of all that it depends on: the environment's lock, the program's folder, and the code of the
simulated device. Runs are kept beside the environments.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from copies import CHECKOUT

from torchperf_lint.verify.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FOLDER = "kept-runs"
_HERE = "{folder of the run}"
_DEVICE = CHECKOUT / "torchperf_lint" / "verify"


def kept(folder: Path, python: Path, run: Callable[[], tuple[Run, float]]) -> tuple[Run, float]:
    """What a run of the program in this folder gives, by this environment's Python, and its seconds: kept, or now."""
    environment = python.parent.parent
    stored = environment.parent / FOLDER / f"{_digest(folder, environment)}.json"
    here = str(folder.resolve())
    if stored.is_file():
        given, seconds = json.loads(stored.read_text("utf-8").replace(_HERE, here))
        return Run(*given), seconds
    fresh = run()
    stored.parent.mkdir(exist_ok=True)
    stored.write_text(json.dumps(fresh).replace(here, _HERE), encoding="utf-8")
    return fresh


def _digest(folder: Path, environment: Path) -> str:
    digest = hashlib.sha256((environment / "made-of").read_bytes())
    for root in (folder, _DEVICE):
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
