"""The user's command, run without a shell in the project's root; the end of its output is kept."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from typing import NamedTuple

_TAIL = 20
"""Lines of the command's output that are shown where it fails without any fix."""

_PATIENCE = 5
"""Seconds that an interrupted command has to end by itself."""


class CannotRun(Exception):
    """The command is not there or cannot be started; the text says why."""


class Ended(NamedTuple):
    """A run of the command: its exit status, negative for a signal, and the last lines of its output."""

    status: int
    tail: str

    @property
    def passed(self) -> bool:
        """Whether the command says that all is well."""
        return self.status == 0

    def __str__(self) -> str:
        return f"signal {-self.status}" if self.status < 0 else f"exit status {self.status}"


def run(command: str, folder: str) -> Ended:
    """Run a command line in a folder; raise CannotRun."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                shlex.split(command), cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise CannotRun(f"`{command}` cannot be run in {folder}: {error.strerror}") from None
        try:
            status = process.wait()
        except BaseException:
            _end(process)
            raise
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    return Ended(status, "\n".join(lines[-_TAIL:]))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
