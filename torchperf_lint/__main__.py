"""`python -m torchperf_lint`."""

from __future__ import annotations

import sys

from torchperf_lint.cli import main

sys.exit(main())
