"""Measures the garbage collector's part of a cold run on a folder: with the linter's settings, Python's, and disabled.

Python collects garbage after every 700 new objects; the linter raises that to 100,000, and excludes its modules'
objects. CPU seconds and peak megabytes of whole processes on one core, run in turns: medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from processes import cost_of

if TYPE_CHECKING:
    from processes import Cost

UNTUNED = (
    "import contextlib, gc, sys\n"
    "from torchperf_lint.engine import project\n"
    "project.calm_collector = contextlib.nullcontext\n"
    "from torchperf_lint.cli import main\n"
)
SETTINGS = {
    "as the linter sets it": "from torchperf_lint.__main__ import run\nrun()",
    "as Python sets it": f"{UNTUNED}status = main()\ngc.freeze()\nsys.exit(status)",
    "off": f"{UNTUNED}gc.disable()\nstatus = main()\ngc.freeze()\nsys.exit(status)",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what is linted")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each setting (default 3)")
    options = parser.parse_args()
    arguments = ["--isolated", "--select=ALL", "--no-cache", "-j1", "--exit-zero", "--quiet", "."]
    costs: dict[str, list[Cost]] = {name: [] for name in SETTINGS}
    for _ in range(options.runs):
        for name, program in SETTINGS.items():
            cost = cost_of([sys.executable, "-c", program, *arguments], options.folder)
            if cost.status not in (0, 2):  # 2: files of a newer grammar than the running Python's
                raise SystemExit(f"exit status {cost.status} with the collector {name}")
            costs[name].append(cost)
    print(f"{'the collector':<26}{'CPU s':>9}{'ratio':>8}{'peak MB':>9}")
    base = statistics.median(cost.cpu for cost in costs["as Python sets it"])
    for name, taken in costs.items():
        cpu, peak = (statistics.median(each) for each in zip(*((cost.cpu, cost.peak) for cost in taken), strict=True))
        print(f"{name:<26}{cpu:>9.2f}{cpu / base:>8.2f}{peak:>9.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
