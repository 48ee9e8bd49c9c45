"""Other releases of packages, each in its own folder that a run puts first on its module path."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Release(NamedTuple):
    """A package in one version."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Unavailable(RuntimeError):
    """A release is neither installed nor obtainable; the text says why."""


def default_folder() -> Path:
    """The folder that stores releases between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torchperf-lint" / "releases"


def folders_of(releases: Iterable[Release], kept: Path) -> list[Path]:
    """The folders of these releases, installed by pip if necessary; installed releases need none. Raise Unavailable."""
    return [_folder_of(release, kept) for release in releases if not _is_installed(release)]


def _is_installed(release: Release) -> bool:
    try:
        return importlib.metadata.version(release.package) == release.version
    except importlib.metadata.PackageNotFoundError:
        return False


def _folder_of(release: Release, kept: Path) -> Path:
    folder = kept.absolute() / f"{release.package}-{release.version}"  # the program runs in another folder
    if folder.is_dir():
        return folder
    try:
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=kept) as temporary:
            place = Path(temporary) / "release"
            # Without dependencies: a workload names everything that the extra `verify` does not install.
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
            command += ["--target", str(place), f"{release.package}=={release.version}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
                raise Unavailable(f"{release} cannot be installed: {reason}")
            if not folder.is_dir():  # another run may have been faster
                os.rename(place, folder)
    except OSError as error:
        raise Unavailable(f"{release} cannot be kept in {kept}: {error.strerror or error}") from None
    return folder
