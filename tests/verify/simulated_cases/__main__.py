"""Run every `check_` function of modules on the simulated device, and print what became of each, by module.

Each module has a process of its own: forks of one that has the device, where there are forks.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

from simulated_cases.harness import recorder
from torchperf_lint.verify.simulated import install


def main(modules: list[str]) -> None:
    install(recorder)
    for module in modules:
        if sys.platform != "linux":  # where a process that has loaded this much is forked without harm
            _run(module)
        elif not os.fork():
            _run(module)
            return
        else:
            _, status = os.wait()
            assert status == 0, f"{module} ended with {status}"


def _run(module: str) -> None:
    print(json.dumps({f"outcomes of {module}": _outcomes(module)}), flush=True)


def _outcomes(module: str) -> dict[str, str]:
    checks = importlib.import_module(f"simulated_cases.{module}")
    outcomes = {}
    for name, check in list(vars(checks).items()):
        if name.startswith("check_"):
            try:
                check()
                outcomes[name] = ""
            except Exception:
                outcomes[name] = traceback.format_exc()
    return outcomes


if __name__ == "__main__":
    main(sys.argv[1:])
