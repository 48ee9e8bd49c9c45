"""Run every `check_` function of modules on the simulated device, and print what became of each, by module."""

from __future__ import annotations

import importlib
import json
import sys
import traceback

from simulated_cases.harness import recorder
from torchperf_lint.verify.simulated import install


def main(modules: list[str]) -> None:
    install(recorder)
    print(json.dumps({module: _outcomes(module) for module in modules}))


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
