"""Options and hypothesis profile of the test suite."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run: a failure in CI is a failure here.
settings.register_profile(
    "project", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless",
        action="store_true",
        help="rewrite what the linter generates (fixed fixtures, tables, outputs in the README), not compare with it",
    )


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether generated files are to be rewritten."""
    return bool(request.config.getoption("--bless"))
