"""Makes the environments that the programs run in, each with its packages at pinned versions from PyPI.

`python benchmarks/programs/environments.py [NAME ...]` makes those that are missing, and `--lock` resolves their
requirements anew and writes their locks. uv installs: it links each file from one cache, so that thirty environments
take little more room than one. torch is not in the locks: it is that of constraints.txt, as a build for the CPU where
pip's own settings name one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from catalogue import FOLDER, programs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalogue import Environment

PYTHON = "3.11"
"""The Python that the locks are for."""

DEFAULT_FOLDER = Path("~/.cache/torchperf-lint-programs").expanduser()

CONSTRAINTS = FOLDER.parents[1] / "constraints.txt"

_LEFT_OUT_NAMES = ("torch", "triton")
_LEFT_OUT_FAMILIES = ("nvidia-", "cuda-")


class NotMade(Exception):
    """An environment could not be made; the message says why."""


def make(environment: Environment, folder: Path, extra: Sequence[str] = ()) -> Path:
    """The Python of an environment below this folder, made if it is missing or made of another lock; raises NotMade.

    `extra` are further requirements, pinned, which take no part in the lock and change nothing that is in it.
    """
    if not environment.lock.is_file():
        raise NotMade(f"{environment.lock.name} is not there: --lock writes it")
    home = folder / environment.name
    made_of = home / "made-of"
    python = home / "bin" / "python"
    wanted = hashlib.sha256(environment.lock.read_bytes() + "\n".join([_torch(), *extra]).encode()).hexdigest()
    if made_of.is_file() and made_of.read_text() == wanted:
        return python
    if home.exists():
        shutil.rmtree(home)
    _uv("venv", "--python", PYTHON, str(home))
    install = "pip", "install", "--python", str(python), "--no-deps"
    _uv(*install, _torch())
    _uv(*install, "--requirement", str(environment.lock))
    if extra:
        _uv("pip", "install", "--python", str(python), "--constraint", str(environment.lock), _torch(), *extra)
    made_of.write_text(wanted)
    return python


def lock(environment: Environment) -> None:
    """Resolve what an environment requires, and write its lock; raises NotMade."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted, limits = Path(scratch, "wanted.in"), Path(scratch, "limits.txt")
        wanted.write_text("\n".join([*environment.requires, _torch()]) + "\n")
        limits.write_text(_torch() + "\n")
        options = "--constraint", str(limits), "--python-version", PYTHON, "--no-header", "--no-annotate"
        resolved = _uv("pip", "compile", *options, str(wanted))
    kept = [line for line in resolved.splitlines() if not _is_left_out(line)]
    environment.lock.write_text("\n".join(kept) + "\n", encoding="utf-8")


def _is_left_out(line: str) -> bool:
    """Whether a line names torch, or what only its builds for GPUs need."""
    name = re.split(r"[=<>\[ ]", line, maxsplit=1)[0]
    return name in _LEFT_OUT_NAMES or name.startswith(_LEFT_OUT_FAMILIES)


def _torch() -> str:
    pinned = re.search(r"^torch==\S+$", CONSTRAINTS.read_text("utf-8"), re.MULTILINE)
    assert pinned is not None
    return pinned[0]


def _uv(*arguments: str) -> str:
    import uv  # only where an environment has to be made

    found = {"UV_FIND_LINKS": os.environ["PIP_FIND_LINKS"]} if os.environ.get("PIP_FIND_LINKS") else {}
    try:
        done = subprocess.run(
            [uv.find_uv_bin(), *arguments], env=os.environ | found, capture_output=True, text=True, check=True
        )
    except subprocess.CalledProcessError as error:
        raise NotMade(error.stderr.strip() or f"uv ended with status {error.returncode}") from None
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="environments (default: all)")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where they lie (default: %(default)s)")
    parser.add_argument("--lock", action="store_true", help="resolve the requirements anew and write the locks")
    options = parser.parse_args()
    known = {each.environment.name: each.environment for each in programs()}
    failed = 0
    for name in options.names or known:
        if name not in known:
            raise SystemExit(f"no environment `{name}`; there are {', '.join(known)}")
        try:
            if options.lock:
                lock(known[name])
            print(f"{name:<24} {make(known[name], options.folder)}", flush=True)
        except NotMade as error:
            failed += 1
            print(f"{name}: error: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
