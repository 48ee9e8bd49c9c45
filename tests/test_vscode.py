"""The extension for VS Code, as far as no npm is needed: its manifest fits the server, its packages are public."""

from __future__ import annotations

import json
import re

import pytest

from linting import ROOT
from torchperf_lint import __version__
from torchperf_lint.engine.findings import Confidence, Severity

pytest.importorskip("pygls")

from torchperf_lint.server.options import MOST_DELAY, NAMES, SECTION, Options, Run, options_from
from torchperf_lint.server.service import FIX_ALL, NOTEBOOKS, PAGE

EXTENSION = ROOT / "editors" / "vscode"
if not EXTENSION.is_dir():
    pytest.skip("a source distribution has no extension", allow_module_level=True)

MANIFEST = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
LOCK = (EXTENSION / "package-lock.json").read_text(encoding="utf-8")
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in (EXTENSION / "src").iterdir()}
DECLARED = {
    name.removeprefix("torchperfLint."): setting
    for name, setting in MANIFEST["contributes"]["configuration"]["properties"].items()
}
FOR_THE_CLIENT = "trace.server"
"""A setting that the client's library reads."""


def constant(file: str, name: str) -> str:
    (found,) = re.findall(rf'^export const {name} = "(.*)";$', SOURCES[file], re.MULTILINE)
    return str(found)


def names(list_of_names: str) -> list[str]:
    """The strings of a list in `settings.ts`."""
    (found,) = re.findall(
        rf"^export const {list_of_names} = \[(.*?)\]", SOURCES["settings.ts"], re.MULTILINE | re.DOTALL
    )
    return re.findall(r'"(\w+)"', found)


def test_settings_are_those_that_the_client_and_the_server_read() -> None:
    assert set(names("SERVER_OPTIONS")) == set(NAMES)
    assert set(DECLARED) == {*names("START_SETTINGS"), *NAMES, FOR_THE_CLIENT}


def test_the_servers_options_have_its_values_and_defaults() -> None:
    defaults = {name: DECLARED[name]["default"] for name in NAMES}
    assert options_from(defaults) == options_from({SECTION: defaults}) == Options()
    assert DECLARED["minSeverity"]["enum"] == [*(each.value for each in Severity), None]
    assert set(DECLARED["minConfidence"]["enum"]) == {*(each.value for each in Confidence), None}
    assert DECLARED["run"]["enum"] == [each.value for each in Run]
    assert (DECLARED["delay"]["minimum"], DECLARED["delay"]["maximum"]) == (0, MOST_DELAY)


def test_selectors_do_what_is_said_of_them(tmp_path) -> None:
    (tmp_path / "torchperf-lint.toml").write_text("ignore = ['TPL102']\nextend-select = ['TPL404']\n", encoding="utf-8")

    def codes(**options: list[str]) -> set[str]:
        return {rule.code for rule in options_from(options).settings(str(tmp_path / "a.py")).rules}

    assert codes(select=["TPL102", "TPL105"]) == {"TPL102", "TPL105"}
    assert codes(ignore=["TPL105"]) == codes() - {"TPL105"}
    assert codes(extendSelect=["TPL102"]) == codes() | {"TPL102"}
    readme = (EXTENSION / "README.md").read_text(encoding="utf-8")
    assert "`extendSelect` and `ignore` add to what" in readme
    assert "`select`\nalso replaces the rules that the project adds or ignores." in readme
    said = DECLARED["select"]["markdownDescription"]
    assert said.endswith("in the place of those that the project selects, adds or ignores.")


def test_names_that_the_server_knows_are_the_same() -> None:
    assert constant("settings.ts", "SERVER_SECTION") == SECTION
    assert constant("commands.ts", "FIX_ALL") == FIX_ALL
    assert constant("commands.ts", "PAGE") == PAGE
    kinds = [each.notebook.notebook_type for each in NOTEBOOKS.notebook_selector]
    assert MANIFEST["activationEvents"] == ["onLanguage:python", *(f"onNotebook:{kind}" for kind in kinds)]


def test_every_setting_and_command_is_described() -> None:
    readme = (EXTENSION / "README.md").read_text(encoding="utf-8")
    for name in DECLARED:
        assert re.search(rf"`(torchperfLint\.)?{re.escape(name)}`", readme), name
    for command in MANIFEST["contributes"]["commands"]:
        assert f'"{command["command"]}"' in SOURCES["extension.ts"]
    assert {setting.get("description") or setting["markdownDescription"] for setting in DECLARED.values()}


def test_it_has_the_version_and_the_licence_of_the_linter() -> None:
    lock = json.loads(LOCK)
    assert MANIFEST["version"] == lock["version"] == lock["packages"][""]["version"] == __version__
    assert (EXTENSION / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert f"## {__version__}\n" in (EXTENSION / "CHANGELOG.md").read_text(encoding="utf-8")


def test_packages_are_pinned_and_come_from_no_host_of_ours() -> None:
    lock = json.loads(LOCK)
    assert all(re.fullmatch(r"[\d.]+", each) for each in MANIFEST["devDependencies"].values())
    packages = [each for name, each in lock["packages"].items() if name]
    assert packages
    assert all(each["integrity"].startswith("sha512-") for each in packages)
    hosts = {host for each in packages for host in re.findall(r"^https?://([^/]+)", each.get("resolved", ""))}
    assert hosts <= {"registry.npmjs.org"}
