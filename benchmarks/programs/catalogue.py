"""The programs of this benchmark and the environments that they run in, as `programs.toml` lists them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parent
TABLE = FOLDER / "programs.toml"


class Environment(NamedTuple):
    """An environment of its own: `requires` is what its lock was made of, the lock what is installed beside torch.

    `known` says that its packages had been linted before their programs were first run: their first figures are no
    first contact.
    """

    name: str
    requires: tuple[str, ...]
    known: bool

    @property
    def lock(self) -> Path:
        """Every package with its version, one to a line."""
        return FOLDER / "locks" / f"{self.name}.txt"


class Program(NamedTuple):
    """A training program: the packages whose lines count, and where it runs.

    `unsafe_differs` says why its results may differ after `--unsafe-fixes`: by rule, in the words of the rule's page.
    """

    name: str
    environment: Environment
    packages: tuple[str, ...]
    field: str
    unsafe_differs: tuple[tuple[str, str], ...] = ()

    @property
    def script(self) -> Path:
        """The program's text."""
        return FOLDER / "scripts" / f"{self.name}.py"


def programs(names: tuple[str, ...] = ()) -> list[Program]:
    """All programs, or those called so, by name; exits with a message where there is none called so."""
    listed: dict[str, Any] = tomllib.loads(TABLE.read_text("utf-8"))
    environments = {
        name: Environment(name, tuple(each["requires"]), each["known"])
        for name, each in sorted(listed["environments"].items())
    }
    found = {
        name: Program(
            name,
            environments[each["environment"]],
            tuple(each["packages"]),
            each["field"],
            tuple(each.get("unsafe_differs", {}).items()),
        )
        for name, each in sorted(listed["programs"].items())
    }
    unknown = [name for name in names if name not in found]
    if unknown:
        raise SystemExit(f"no program `{unknown[0]}`; there are {', '.join(found)}")
    return [found[name] for name in names] or list(found.values())
