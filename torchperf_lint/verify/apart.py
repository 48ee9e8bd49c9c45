"""Runs modules of this package in processes of their own without changing Python's module path.

A process is started with this file by its name, not by `python -m`, which would put the folder of the package on the
module path. That folder is a checkout or site-packages, with other modules that would precede the program's own; and
it could not be removed again, because it may be on the path for a good reason.
"""

from __future__ import annotations

import os
import sys


def command(module: str, *arguments: str, python: str | None = None) -> list[str]:
    """The command that runs `main` of one of our modules with these arguments, by this Python or ours."""
    return [python or sys.executable, os.path.abspath(__file__), module, *arguments]


def has_script_folder() -> bool:
    """Whether Python puts a script's folder first on the path, as is its default."""
    return not getattr(sys.flags, "safe_path", False)  # new in Python 3.11


def _run(module: str) -> int:
    if has_script_folder():
        del sys.path[0]  # this folder; its modules are not top-level
    from importlib import import_module
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    name, folder = module.partition(".")[0], os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec(name, [os.path.dirname(os.path.dirname(folder))])
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(package)
    return int(import_module(module).main())


if __name__ == "__main__":
    del sys.argv[0]
    raise SystemExit(_run(sys.argv[0]))
