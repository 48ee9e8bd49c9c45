"""The table of pyproject.toml: what it sets, which one counts, and how a mistake in it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchperf_lint import config
from torchperf_lint.engine import registry
from torchperf_lint.engine.declare import Category, Rule
from torchperf_lint.engine.findings import Confidence, Severity


def _rule(code: str, name: str, default: bool = True) -> Rule:
    category = Category(int(code[3]))
    return Rule(
        code, name, category, "a summary", "a message", Severity.ERROR, default, None, ((b"x",),), None, None, _nothing
    )


def _nothing(model):
    yield from ()


@pytest.fixture(autouse=True)
def three_rules(monkeypatch):
    """TPL101 and TPL201 are on by default, TPL105 is not."""
    rules = (
        _rule("TPL101", "item-in-loop"),
        _rule("TPL105", "round-trip", default=False),
        _rule("TPL201", "cpu-built"),
    )
    monkeypatch.setattr(registry, "all_rules", lambda: rules)
    config._selected_rules.cache_clear()
    yield
    config._selected_rules.cache_clear()


def _project(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _codes(settings: config.Settings, path: str = "train.py") -> list[str]:
    return [rule.code for rule in settings.rules_for(f"{settings.root}/{path}")]


def _reason(path: Path) -> str:
    with pytest.raises(config.BadConfig) as caught:
        config.load(str(path.parent))
    return str(caught.value.failure)


def test_every_key_is_read(tmp_path):
    _project(
        tmp_path,
        """
        [tool.torchperf-lint]
        select = ["TPL1"]
        ignore = ["round-trip"]
        extend-select = ["TPL201"]
        exclude = ["build/"]
        extend-exclude = ["old/"]
        target-torch = "2.4"
        target-torchmetrics = "1.6.1"
        hot-functions = ["step"]
        loader-names = ["feed"]
        min-confidence = "proven"
        min-severity = "warning"
        fail-on = "error"
        baseline = "known.json"
        per-file-ignores = { "tests/**" = ["TPL1"] }
        """,
    )
    settings = config.load(str(tmp_path))
    assert settings == config.Settings(
        root=str(tmp_path),
        source=str(tmp_path / "pyproject.toml"),
        select=("TPL1",),
        ignore=("round-trip",),
        extend_select=("TPL201",),
        per_file_ignores=(("tests/**", ("TPL1",)),),
        exclude=("build/",),
        extend_exclude=("old/",),
        target_torch=(2, 4),
        target_torchmetrics=(1, 6, 1),
        hot_functions=("step",),
        loader_names=("feed",),
        min_confidence=Confidence.PROVEN,
        min_severity=Severity.WARNING,
        fail_on=Severity.ERROR,
        baseline=str(tmp_path / "known.json"),
        baseline_source=str(tmp_path / "pyproject.toml"),
    )
    assert settings.target.torch == (2, 4)
    assert _codes(settings) == ["TPL101", "TPL201"]
    assert _codes(settings, "tests/deep/test_x.py") == ["TPL201"]


def test_nothing_configured_means_the_default_rules(tmp_path):
    assert _codes(config.Settings(root=str(tmp_path))) == ["TPL101", "TPL201"]


def test_per_file_ignores_never_reach_out_of_the_project(tmp_path):
    settings = config.Settings(root=str(tmp_path / "project"), per_file_ignores=(("*.py", ("ALL",)),))
    assert settings.rules_for(str(tmp_path / "elsewhere.py")) == settings.rules
    assert settings.rules_for(str(tmp_path / "project" / "here.py")) == ()


def test_the_nearest_file_with_our_table_counts(tmp_path):
    _project(tmp_path, '[tool.torchperf-lint]\nselect = ["TPL101"]\n')
    _project(tmp_path / "package", '[project]\nname = "x"\ndependencies = ["torchperf-lint"]\n')
    (tmp_path / "package" / "inner").mkdir()
    assert config.load(str(tmp_path / "package" / "inner")).select == ("TPL101",)
    _project(tmp_path / "package", '[tool.torchperf-lint]\nselect = ["TPL201"]\n')
    assert config.load(str(tmp_path / "package" / "inner")).select == ("TPL201",)


def test_a_file_that_never_names_us_is_not_even_parsed(tmp_path):
    _project(tmp_path, "this is [not toml\n")
    assert config.load(str(tmp_path)) == config.Settings()


def test_a_named_file_must_have_the_table(tmp_path):
    other = tmp_path / "lint.toml"
    other.write_text('[tool.torchperf-lint]\nselect = ["TPL201"]\n')
    assert config.load(str(tmp_path), str(other)).select == ("TPL201",)
    other.write_text("[tool.other]\n")
    with pytest.raises(config.BadConfig, match="no table"):
        config.load(str(tmp_path), str(other))
    with pytest.raises(config.BadConfig, match="cannot be read: No such file"):
        config.load(str(tmp_path), str(tmp_path / "absent.toml"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('selct = ["TPL1"]', "has no key `selct`; the nearest is `select`"),
        ("per_file_ignores = {}", "has no key `per_file_ignores`; the nearest is `per-file-ignores`"),
        ('select = "TPL1"', "`select`: must be a list of strings, not a string"),
        ("exclude = [1]", "`exclude`: must be a list of strings, not a list of other things"),
        ('min-confidence = "sure"', "`min-confidence`: `sure` is not `proven` or `likely`"),
        ("min-confidence = []", "`min-confidence`: `[]` is not `proven` or `likely`"),
        ("target-torch = 2.4", "`target-torch`: must be a string such as '2.4', not a number"),
        ('target-torch = "new"', "`target-torch`: `new` is not a version such as 2.13 or 1.6.2"),
        (
            'ignore = ["item-in-lop"]',
            "`ignore`: no rule matches the selector `item-in-lop`; did you mean `item-in-loop`?",
        ),
        ('per-file-ignores = ["a"]', "`per-file-ignores`: must be a table of globs and lists of selectors"),
        ('per-file-ignores = { "a.py" = "TPL1" }', "`per-file-ignores`: must be a list of strings, not a string"),
        ('per-file-ignores = { "a.py" = ["TPL999"] }', "`per-file-ignores`: no rule matches the selector `TPL999`"),
        ('ignore = ["tpl1"]', "no rule matches the selector `tpl1`; did you mean `TPL1`?"),
        ('exclude = ["a.py", "["]', "`exclude`: `[` is not a glob as in a .gitignore"),
        ('extend-exclude = [""]', "`extend-exclude`: `` is not a glob as in a .gitignore"),
        ('per-file-ignores = { "!" = ["TPL1"] }', "`per-file-ignores`: `!` is not a glob as in a .gitignore"),
        ('per-file-ignores = { "!a.py" = ["TPL1"] }', "`per-file-ignores`: `!a.py` takes no file in"),
        *(
            (f"{key} = ['step', {name!r}]", f"`{key}`: `{name}` is not a name such as `step` or `Engine.step`")
            for key in ("hot-functions", "loader-names")
            for name in ("", " ", "a b", "a.", ".a", "step()")
        ),
    ],
)
def test_a_mistake_is_one_line_with_file_key_and_help(tmp_path, line, reason):
    path = _project(tmp_path, f"[tool.torchperf-lint]\n{line}\n")
    told = _reason(path)
    assert told.startswith(f"{path}: error: [tool.torchperf-lint] ")
    assert reason in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "name", ["tool.torchperf_lint", "torchperf-lint", "torchperf_lint", "tool.torchperflint", "tool.Torchperf-Lint"]
)
@pytest.mark.parametrize("beside", ["", "[tool.torchperf-lint]\n"])
def test_a_table_that_is_meant_for_us_is_not_passed_over(tmp_path, name, beside):
    path = _project(tmp_path, f'{beside}[{name}]\nselect = ["TPL1"]\n')
    assert _reason(path) == f"{path}: error: [{name}] is no table of ours; the nearest is [tool.torchperf-lint]"


def test_other_tables_may_speak_of_us(tmp_path):
    _project(tmp_path, '[project]\ndependencies = ["torchperf_lint"]\n[tool.uv.sources]\ntorchperf_lint = {}\n')
    assert config.load(str(tmp_path)) == config.Settings()


def test_broken_toml_is_told_with_its_position(tmp_path):
    path = _project(tmp_path, '[tool.torchperf-lint]\nselect = ["TPL1"\nignore = 3\n')
    told = _reason(path)
    assert told.startswith(f"{path}:3:")
    assert "is not TOML: " in told
    assert "(at" not in told
    _project(tmp_path, "[tool.torchperf-lint]\nselect = [\n")
    assert _reason(path).startswith(f"{path}:3: error: is not TOML: ")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("[" * 100_000 + "]" * 100_000, "is too deeply nested to read"),
        ("1" * 5_000, "cannot be read: Exceeds the limit"),
    ],
)
def test_toml_that_python_cannot_read_is_one_line(tmp_path, value, reason):
    path = _project(tmp_path, f"[tool.torchperf-lint]\nselect = {value}\n")
    assert _reason(path).startswith(f"{path}: error: {reason}")


def test_globs_may_take_files_back_in(tmp_path):
    _project(tmp_path, '[tool.torchperf-lint]\nexclude = ["gen_*.py", "!gen_a.py", "old/", "build"]\n')
    assert config.load(str(tmp_path)).exclude == ("gen_*.py", "!gen_a.py", "old/", "build")


def test_a_table_that_is_no_table_and_bytes_that_are_no_text(tmp_path):
    assert "must be a table" in _reason(_project(tmp_path, '[tool]\n"torchperf-lint" = 3\n'))
    path = tmp_path / "pyproject.toml"
    path.write_bytes(b"[tool.torchperf-lint]\n# \xff\n")
    assert _reason(path) == f"{path}:2: error: is not UTF-8"


def test_the_command_lines_selectors_win_over_the_files():
    settings = config.Settings(select=("TPL101",), ignore=("TPL201",), extend_select=("TPL105",))
    assert _codes(settings) == ["TPL101", "TPL105"]
    assert _codes(settings.with_selectors(("TPL201",), (), ())) == ["TPL201"]
    assert _codes(settings.with_selectors(None, ("TPL101",), ())) == ["TPL105"]
    assert _codes(settings.with_selectors(None, (), ("TPL201",))) == ["TPL101", "TPL105", "TPL201"]
