"""Who may import whom, what a run of the linter never loads, and how long a module may be."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linting import ROOT
from torchperf_lint import __version__
from torchperf_lint.model.asking.code import CodeModel
from torchperf_lint.model.asking.frequency import FrequencyModel
from torchperf_lint.model.asking.values import ValueModel

if TYPE_CHECKING:
    from collections.abc import Collection

PACKAGE = "torchperf_lint"
MODULES = sorted((ROOT / PACKAGE).rglob("*.py"))
LONGEST = 500

ORDER_IN_MODEL = ("syntax", "project", "domain", "callgraph", "values", "frequency", "loaders")
BELOW_THE_MODEL = ("model.bounds", "syntax", "knowledge", "engine.findings")
OF_THE_MODEL = (
    *(f"model.{name}" for name in ("HotPath", "Model", "Site", "Value")),
    *("model.domain.frequency", "model.domain.provenance", "model.domain.values", "model.handles"),
)
"""All that idioms and rules import of the model: its questions, the data in their answers, and `handles`."""

# Package or module -> what it may import of ours, by prefix; the longest key that fits a module holds.
# Imports for type checkers count as well: a direction is a direction.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "knowledge": ("knowledge",),
    "syntax": ("syntax", "engine.findings"),
    # The model's packages, the lowest first: each may import those above it in this table.
    **{
        f"model.{package}": (*(f"model.{each}" for each in ORDER_IN_MODEL[: place + 1]), *BELOW_THE_MODEL)
        for place, package in enumerate(ORDER_IN_MODEL)
    },
    "model": ("model", *BELOW_THE_MODEL),
    "idioms": ("idioms", *OF_THE_MODEL, "model.bounds", "syntax", "knowledge", "engine.findings"),
    "rules": (
        "engine.declare",
        "engine.findings",
        "idioms",
        *OF_THE_MODEL,
        "syntax.cst",
        "syntax.edits",
        "syntax.shape",
        "syntax.site",
        "knowledge",
    ),
    "engine": ("engine", "model", "syntax", "knowledge"),
    "engine.declarations": ("engine.declare", "engine.findings", "model", "rules"),
    "engine.declare": ("engine.findings", "knowledge.accelerators", "knowledge.torchmetrics_api", "model"),
    "engine.findings": ("syntax.site",),
    "engine.plugins": ("engine.declare",),
    "engine.registry": ("engine.declarations", "engine.declare", "engine.plugins"),
    "engine.scan": ("engine.declare",),
    "engine.project": ("engine", "model", "syntax", "knowledge", "config"),
    "report": ("report", "engine.findings", "syntax.source"),
    "adopt": ("adopt", "config", "engine", "report"),
    "completion": (
        "check",
        "engine.registry",
        "cleaning",
        "options",
        "profile.command",
        "server.command",
        "verify.command",
        "why.command",
    ),
    "cleaning": ("check", "engine.files", "engine.project_root", "options", "report", "syntax.identity"),
    "terminal": (),
    "watching": ("check", "config", "engine.files", "options"),
    "config_keys": ("engine.findings", "engine.globs", "engine.registry", "knowledge.hints", "knowledge.versions"),
    "config_reference": ("config_keys", "engine.findings", "engine.registry"),
    "options": (
        "config",
        "config_keys",
        "engine.executors",
        "engine.findings",
        "engine.globs",
        "engine.registry",
        "knowledge.versions",
        "report",
    ),
    "shown": ("adopt", "check", "config", "config_keys", "engine.files", "options", "report"),
    "config": (
        "config_keys",
        "engine.declare",
        "engine.findings",
        "engine.globs",
        "engine.registry",
        "knowledge.hints",
        "knowledge.versions",
    ),
    "measurements": ("engine.declare",),
    "pages": ("engine.declare", "engine.registry", "measurements"),
    "verify": ("verify", "config", "engine", "knowledge", "measurements", "pages", "report", "syntax.identity"),
    "why": (
        "why",
        "check",
        "config",
        "engine",
        "knowledge.versions",
        "model",
        "options",
        "pages",
        "report",
        "syntax.notebook",
        "syntax.recursion",
        "syntax.site",
        "syntax.source",
        "syntax.tree",
    ),
    "flake8_plugin": ("engine", "knowledge.hints", "knowledge.versions", "report"),
    "cli": (
        "check",
        "cleaning",
        "watching",
        "completion",
        "engine",
        "options",
        "pages",
        "verify.command",
        "profile.command",
        "server.command",
        "why.command",
    ),
    "api": ("adopt", "api_options", "check", "config", "engine", "options", "syntax.source"),
    "api_options": ("config_keys", "engine.findings", "knowledge.versions"),
    "plugin": ("engine.declare", "engine.findings", "model"),
    "check": (
        "adopt",
        "config",
        "engine",
        "guarded",
        "options",
        "outcome",
        "terminal",
        "pages",
        "report",
        "shown",
        "syntax.identity",
        "syntax.source",
    ),
    "guarded": ("guarded", "engine", "report", "syntax.identity"),
    "outcome": ("engine.findings", "report"),
    "server": (
        "server",
        "adopt",
        "check",
        "config",
        "config_keys",
        "engine",
        "knowledge",
        "model",
        "options",
        "report",
        "syntax.identity",
        "syntax.notebook",
        "syntax.source",
    ),
    "profile": (
        "profile",
        "config",
        "engine",
        "knowledge",
        "report",
        "syntax.source",
        "verify.events",
        "verify.page.markup",
        "verify.report",
        "verify.runs",
        "verify.script",
        "verify.sources",
    ),
}
FOR_IDIOMS = (
    {name for part in (CodeModel, ValueModel, FrequencyModel) for name in vars(part) if not name.startswith("_")}
    - {"code", "path"}
) | frozenset(
    "ast_of function_of home hot_expressions is_hot models_making models_of_loader name_given place route_of site_at "
    "sites source statement_of with_neighbours".split()
)
"""The questions of `Model` by Python's own tree: a rule judges libcst nodes, and asks an idiom for the rest."""
PARTS_OF_MODEL = frozenset("analyzed entry_points frequency index inference loops program recorder".split())
"""What the model's parts call each other."""
RANGES = {("idioms.transfer.construction", "_LARGEST_BYTE")}  # bounds of dtypes, not of searches
DECIDE = ("model.", "idioms.", "rules.")
MESSAGES = frozenset({"says", "where", "repeated", "label", "message"})  # of evidence, and of how often a place runs
ASKS_OF_A_TEXT = frozenset({"startswith", "endswith", "find", "index", "count", "search", "match", "fullmatch"})
FOREIGN_TO_RULES = ("ast", "libcst", "tokenize", "torch", "rich", "pathspec", "pathlib", "os", "sys", "io")
NEVER_LOADED = ("torch", "numpy", "dask", "distributed")
SPEAKS_TO_CLUSTERS = "engine.cluster"
NOT_LOADED_WITHOUT_A_FINDING = (
    *NEVER_LOADED,
    "libcst",
    "rich",
    "dataclasses",
    "pathspec",
    "inspect",
    "multiprocessing",
    "importlib.metadata",
    "tokenize",
    "_hashlib",
    "difflib",
    "subprocess",
    f"{PACKAGE}.engine.fixer",
)
NOT_LOADED_WHERE_NOTHING_IS_WRITTEN = ("tempfile", "shutil", "random", "pathlib", "textwrap", "urllib.parse")
NOT_LOADED_BY_ONE_FILE = (
    *NEVER_LOADED,
    "rich",
    "multiprocessing",
    "concurrent.futures",
    "asyncio",
    "importlib.metadata",
)
CLEAN_FILE = "import torch\n\n\ndef add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:\n    return a + b\n"
SLOW_FILE = """\
import torch

device = torch.device("cuda")
model = torch.nn.Linear(2, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""

every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: _name(path))  # noqa: PLW0108


@every_module
def test_import_directions(path: Path) -> None:
    name = _name(path)
    key = max((key for key in MAY_IMPORT if _covers(key, name)), key=len, default=None)
    if name in ("", "__main__"):
        allowed: tuple[str, ...] = ("api", "cli", "engine.mishaps")
    else:
        assert key is not None, f"{name} has no row in MAY_IMPORT yet: add one"
        allowed = MAY_IMPORT[key]
    for imported in _imports(path):
        if imported.split(".")[0] != PACKAGE:
            continue
        ours = imported.removeprefix(PACKAGE).lstrip(".")
        free = ours in ("", "__version__") or (key == "rules" and "._" in ours and ours.startswith("rules."))
        assert free or any(_covers(prefix, ours) for prefix in allowed), f"{name} must not import {imported}"


@every_module
def test_only_one_module_connects_to_clusters(path: Path) -> None:
    """It is loaded only where a run names a cluster: no other module imports it at its top."""
    loaded = {imported.split(".")[0] for imported in _imports(path)}
    assert _name(path) == SPEAKS_TO_CLUSTERS or not loaded & {"dask", "distributed"}
    at_top = [node for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.ImportFrom)]
    assert f"{PACKAGE}.{SPEAKS_TO_CLUSTERS}" not in {node.module for node in at_top}


@every_module
def test_rules_import_only_what_they_may(path: Path) -> None:
    name = _name(path)
    if not name.startswith("rules."):
        return
    for imported in _imports(path):
        assert imported.split(".")[0] not in FOREIGN_TO_RULES, f"a rule must not import {imported}"
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "model":
            assert node.attr not in FOR_IDIOMS, f"`model.{node.attr}` is for idioms: a rule judges libcst nodes"


@every_module
def test_idioms_and_rules_only_ask_questions(path: Path) -> None:
    if _name(path).startswith(("idioms.", "rules.")):
        assert not _reads_parts(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "code",
    [
        "model.inference.frame_value(function, node)",
        "self._model.frequency.of(statement)",
        "model._inference.lineage(cls)",
        "there._index",
        "record.function.index.path",
        "loops = model.loops",
        "model.program.file_of(index)",
        "(analyzed.loading for analyzed in model.analyzed)",
    ],
)
def test_reading_a_part_of_the_model_is_noticed(code: str) -> None:
    assert _reads_parts(code)


@pytest.mark.parametrize(
    "code",
    [
        "model.value_in(function, node)",
        "place.block.index(statement)",
        "record.place.loops()",
        "read.hot_path.frequency is Frequency.HOOK",
        "self._index",
        "found._replace(because=())",
    ],
)
def test_questions_and_own_attributes_are_no_parts_of_the_model(code: str) -> None:
    assert not _reads_parts(code)


def _reads_parts(code: str) -> list[str]:
    """What reads a part of the model, or a private attribute of another object."""
    tree = ast.parse(code)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            is_part = node.attr in PARTS_OF_MODEL and id(node) not in called and not owner.endswith("hot_path")
            is_private = re.match("_[^_]", node.attr) and owner not in ("self", "cls") and node.attr != "_replace"
            if is_part or is_private:
                found.append(ast.unparse(node))
    return found


def test_no_modules_of_the_model_import_each_other() -> None:
    inside = {_name(path): path for path in MODULES if _name(path).split(".")[0] == "model"}
    waiting = {
        name: {_module_in(inside, each.removeprefix(f"{PACKAGE}.")) for each in _imports(path)} - {name, None}
        for name, path in inside.items()
    }
    while free := [name for name, needed in waiting.items() if not needed]:
        for name in free:
            del waiting[name]
        for needed in waiting.values():
            needed.difference_update(free)
    assert not waiting, "these import each other, in a circle"


def _module_in(modules: Collection[str], imported: str) -> str | None:
    """The module that an imported name is, or comes from; None if that is none of these."""
    while imported and imported not in modules:
        imported = imported.rpartition(".")[0]
    return imported or None


@every_module
def test_module_has_a_docstring_and_is_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "there is no docstring"
    assert len(text.splitlines()) <= LONGEST, f"longer than {LONGEST} lines"


def test_nothing_imports_torch() -> None:
    for path in MODULES:
        if _name(path).startswith("verify"):
            continue
        assert not {each.split(".")[0] for each in _imports(path)} & {"torch", "torchmetrics"}, _name(path)


def test_clean_file_loads_nothing_heavy(tmp_path: Path) -> None:
    status, loaded = _loaded_by_run(tmp_path, CLEAN_FILE)
    assert status == 0
    assert not [each for each in NOT_LOADED_WITHOUT_A_FINDING if each in loaded]


def test_clean_file_without_stored_reports_loads_nothing_that_writes(tmp_path: Path) -> None:
    status, loaded = _loaded_by_run(tmp_path, CLEAN_FILE, "--no-cache")
    assert status == 0
    unwanted = (*NOT_LOADED_WITHOUT_A_FINDING, *NOT_LOADED_WHERE_NOTHING_IS_WRITTEN)
    assert not [each for each in unwanted if each in loaded]


def test_fixing_one_file_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    status, loaded = _loaded_by_run(tmp_path, SLOW_FILE, "--no-cache", "--fix", "--unsafe-fixes")
    assert (tmp_path / "example.py").read_text(encoding="utf-8") != SLOW_FILE
    assert status in (0, 1)
    assert f"{PACKAGE}.engine.fixer" in loaded
    assert not [each for each in NOT_LOADED_BY_ONE_FILE if each in loaded]


def test_version_is_told_before_anything_is_loaded() -> None:
    program = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules)\n"
        "from torchperf_lint.__main__ import run\n"
        "sys.argv[1:] = ['--version']\n"
        "try:\n    run()\nfinally:\n    print(*sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [PACKAGE.replace("_", "-"), __version__]
    assert set(done.stderr.split()) <= {"__future__", "gc", PACKAGE, f"{PACKAGE}.__main__"}


def test_stored_reports_are_read_without_the_model() -> None:
    modules = "files, findings, json_codec, project, project_root, requirements, results, store, tool_fingerprint"
    program = (
        f"import sys; from torchperf_lint.engine import {modules}\n"
        "print([each for each in sys.modules if each == 'libcst' or each.startswith('torchperf_lint.model')])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_stored_report_loads_neither_rules_nor_model(tmp_path: Path) -> None:
    first, _ = _loaded_by_run(tmp_path, SLOW_FILE)
    again, loaded = _loaded_by_run(tmp_path, SLOW_FILE)
    assert first == again == 1
    modules = tuple(f"{PACKAGE}.{package}." for package in ("rules", "idioms", "model"))
    assert not [each for each in loaded if each.startswith(modules) or each in NOT_LOADED_WITHOUT_A_FINDING]


def test_finding_does_not_load_torch(tmp_path: Path) -> None:
    status, loaded = _loaded_by_run(tmp_path, SLOW_FILE)
    assert status == 1
    assert "libcst" in loaded, "a finding carries its libcst node"
    assert not [each for each in NEVER_LOADED if each in loaded]


def _loaded_by_run(folder: Path, code: str, *options: str) -> tuple[int, set[str]]:
    """Exit status and loaded modules of one run of the command line on a file."""
    (folder / "example.py").write_text(code, encoding="utf-8")
    program = (
        "import json, sys; from torchperf_lint.cli import main\n"
        f"status = main(['--isolated', '--output-format', 'concise', '-j', '1', 'example.py', *{options!r}])\n"
        "print(json.dumps([status, sorted(sys.modules)]))"
    )
    # -I and -S keep the test environment's own start-up hooks, which import what they like, out of the count.
    places = [str(ROOT), *(each for each in sys.path if each.endswith("site-packages"))]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {places!r}\n{program}"],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    status, modules = json.loads(done.stdout.splitlines()[-1])
    return status, set(modules)


@functools.cache
def _imports(path: Path) -> tuple[str, ...]:
    """Full names of everything a module imports, at any depth; `from a import b` counts as a.b."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)}: imports are absolute here"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def _name(path: Path) -> str:
    """`engine.scan` for torchperf_lint/engine/scan.py; empty for the package itself."""
    parts = list(path.relative_to(ROOT / PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _covers(prefix: str, name: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


@pytest.mark.parametrize("path", [path for path in MODULES if _name(path).startswith(DECIDE)], ids=_name)
def test_what_messages_say_decides_nothing(path: Path) -> None:
    """No text of evidence, and no word for how often a place runs, is compared or searched."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKS_OF_A_TEXT:
            asked = [node.func.value, *node.args]
        for each in asked:
            of_step = isinstance(each, ast.Attribute) and each.attr == "text" and ast.unparse(each.value) == "step"
            told = isinstance(each, ast.Attribute) and each.attr in MESSAGES
            is_token = isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) == "_TOKEN"
            assert is_token or not (of_step or told), f"{path}:{node.lineno}: {ast.unparse(node)}"


def test_bounds_live_in_one_module() -> None:
    """No number in the model or the idioms is named as a bound, and none is read but as `bounds.NAME`."""
    found = set()
    for path in MODULES:
        name = _name(path)
        if name == "model.bounds" or not name.startswith(("model.", "idioms.")):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            assert not (isinstance(node, ast.ImportFrom) and node.module == f"{PACKAGE}.model.bounds"), name
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                is_number = isinstance(node.value, ast.Dict) or (
                    isinstance(node.value, ast.Constant) and isinstance(node.value.value, int)
                )
                if is_number and re.match(r"_?(MOST|MAX|FEW|ENOUGH|HOPS|LONGEST|LARGEST)(_|$)", node.targets[0].id):
                    found.add((name, node.targets[0].id))
    assert found == RANGES
