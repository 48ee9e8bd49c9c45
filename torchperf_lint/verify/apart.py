"""Modules of this package in processes of their own, whose paths are those that Python makes without us.

A process is started with this file by its name, not by `python -m`: for that, the folder that holds the package would
have to be among those that modules are looked for in. It is a checkout or site-packages, where other modules lie, which
would go before the program's own; and none of it could be taken away again, for it may be there with good reason.
"""

from __future__ import annotations

import os
import sys


def command(module: str, *arguments: str, python: str | None = None) -> list[str]:
    """The command that runs the function `main` of one of our modules with these arguments, by this Python or ours."""
    return [python or sys.executable, os.path.abspath(__file__), module, *arguments]


def has_script_folder() -> bool:
    """Whether Python puts the folder of a script first on the path, as it does unless told not to."""
    return not getattr(sys.flags, "safe_path", False)  # new in Python 3.11


def _run(module: str) -> int:
    if has_script_folder():
        del sys.path[0]  # this folder, whose modules are no top-level ones
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
