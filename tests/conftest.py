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

    parser.addoption("--consumers", action="store_true", help="run the tests that drive other programs, and no others")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that drive other programs run when they are asked for."""
    asked = config.getoption("--consumers")
    wanted: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for each in items:
        wanted[(each.get_closest_marker("consumer") is not None) == asked].append(each)
    config.hook.pytest_deselected(items=wanted[False])
    items[:] = wanted[True]


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether generated files are to be rewritten."""
    return bool(request.config.getoption("--bless"))
