"""A real git repository in a folder, for the tests of what asks git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

WHO = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def git(*arguments: str, where: Path | str = ".") -> str:
    """What git prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=where, env={**os.environ, **WHO}, capture_output=True, text=True, check=True
    )
    return done.stdout


def begun(folder: Path | str = ".") -> None:
    """Make a repository, whose first branch is main."""
    git("init", "-q", "-b", "main", where=folder)


def committed(folder: Path | str = ".") -> str:
    """Commit everything; the name of the commit."""
    git("add", "-A", where=folder)
    git("commit", "-q", "-m", "x", "--allow-empty", where=folder)
    return git("rev-parse", "HEAD", where=folder).strip()
