"""The program: `torchperf-lint`, or `python -m torchperf_lint`.

Nothing that is a file may be imported before `_leave_current_folder`: Python would look for it in that folder.
"""

import gc
import os
import sys

from torchperf_lint import __version__

TYPE_CHECKING = False  # type checkers know the name; the module `typing` takes as long as Python's whole start
if TYPE_CHECKING:
    from typing import NoReturn

SELDOM = 100_000, 50, 100
"""Thresholds of the garbage collector: most objects live until the end of a run, so collections find little."""


def run() -> "NoReturn":
    """Run the command line and exit at once, without freeing objects one by one."""
    if sys.argv[1:] == ["--version"] and _version_is_printed():
        sys.exit()
    gc.set_threshold(*SELDOM)  # before the imports; few runs allocate that many objects
    try:
        from torchperf_lint.cli import main
    except Exception as error:  # an incomplete installation
        from torchperf_lint.engine.mishaps import told

        sys.exit(_failed(told({"": error})))
    status = main()
    gc.freeze()
    sys.exit(status)


def _failed(reason: str) -> int:
    """Print why the program cannot start, if stderr is open; returns the exit status."""
    if sys.stderr is not None:
        print(f"torchperf-lint: error: {reason}", file=sys.stderr)
    return 2


def _leave_current_folder() -> None:
    """Remove the folder that `python -m` puts first on the path: its code is linted, not run.

    An empty entry of PYTHONPATH, as in `PYTHONPATH=$PYTHONPATH:/more`, means the same folder and is removed as well.
    """
    here = ("", _current_folder())
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False) or sys.path[0] not in here:
        return
    del sys.path[0]
    named = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = os.pathsep.join(named)  # for child processes
    if here[1] not in map(os.path.abspath, named):
        sys.path[:] = [folder for folder in sys.path if folder not in here]
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if own == here[1] and own not in sys.path:
        sys.path.append(own)  # a checkout that is not installed: child processes must find this package


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # the folder is gone
        return ""


def _version_is_printed() -> bool:
    """Print the version before anything else is loaded; on failure, the command line reports the error."""
    try:
        # Nothing may stay in a buffer, where it would fail again.
        os.write(sys.stdout.fileno(), f"torchperf-lint {__version__}{os.linesep}".encode())
    except (AttributeError, OSError):  # stdout is None if the parent process closed it
        return False
    return True


if __name__ == "__main__":
    _leave_current_folder()
    run()
