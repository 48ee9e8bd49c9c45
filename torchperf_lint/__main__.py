"""The program: `torchperf-lint`, or `python -m torchperf_lint`."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

from torchperf_lint.cli import main

SELDOM = 100_000, 50, 100
"""Thresholds of the collector: what a run makes it keeps to its end, so that looking for garbage finds little."""


def run() -> NoReturn:
    """Run the command line and end the process, which then takes nothing apart that ends with it."""
    gc.set_threshold(*SELDOM)
    status = main()
    gc.freeze()
    sys.exit(status)


if __name__ == "__main__":
    run()
