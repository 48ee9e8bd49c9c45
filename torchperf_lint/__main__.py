"""The program: `torchperf-lint`, or `python -m torchperf_lint`.

Up to `_leave_current_folder` nothing is imported that is a file: Python would look for it there.
"""

import gc
import os
import sys

from torchperf_lint import __version__

TYPE_CHECKING = False  # type checkers know the name; the module `typing` takes as long as Python's whole start
if TYPE_CHECKING:
    from typing import NoReturn

SELDOM = 100_000, 50, 100
"""Thresholds of the collector: what a run makes it keeps to its end, so that looking for garbage finds little."""


def run() -> "NoReturn":
    """Run the command line and end the process, which then takes nothing apart that ends with it."""
    if sys.argv[1:] == ["--version"] and _version_is_printed():
        sys.exit()
    gc.set_threshold(*SELDOM)  # before the imports: hardly any run makes as many objects
    try:
        from torchperf_lint.cli import main
    except Exception as error:  # an installation that is not whole
        from torchperf_lint.engine.mishaps import told

        sys.exit(_failed(told({"": error})))
    status = main()
    gc.freeze()
    sys.exit(status)


def _failed(reason: str) -> int:
    """Say why nothing can be done, where there is somebody to read it; the exit status."""
    if sys.stderr is not None:
        print(f"torchperf-lint: error: {reason}", file=sys.stderr)
    return 2


def _leave_current_folder() -> None:
    """Take from the path what `python -m` has put there first: the folder with the code that is linted, not run.

    An empty entry of PYTHONPATH, as `PYTHONPATH=$PYTHONPATH:/more` leaves one, means the same folder, and goes as well.
    """
    here = ("", _current_folder())
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False) or sys.path[0] not in here:
        return
    del sys.path[0]
    named = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = os.pathsep.join(named)  # for processes that we start
    if here[1] not in map(os.path.abspath, named):
        sys.path[:] = [folder for folder in sys.path if folder not in here]
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if own == here[1] and own not in sys.path:
        sys.path.append(own)  # a checkout that is not installed: processes that we start have to find this package


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return ""


def _version_is_printed() -> bool:
    """Print the version before anything else is loaded; where that fails, the command line knows what to say."""
    try:
        # Nothing may stay in a buffer, to fail once more.
        os.write(sys.stdout.fileno(), f"torchperf-lint {__version__}{os.linesep}".encode())
    except (AttributeError, OSError):  # stdout is None where whoever started us has closed it
        return False
    return True


if __name__ == "__main__":
    _leave_current_folder()
    run()
