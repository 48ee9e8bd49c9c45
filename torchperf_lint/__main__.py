"""`python -m torchperf_lint`."""

import sys

from torchperf_lint.cli import main

sys.exit(main())
