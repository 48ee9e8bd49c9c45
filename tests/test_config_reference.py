"""The JSON schema and the reference of the configuration are those of the code, and agree with what the loader does."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linting import ROOT
from torchperf_lint import config
from torchperf_lint.config_keys import BAD_VALUES, KEYS, Form
from torchperf_lint.config_reference import SCHEMA, schema, schema_text, table
from torchperf_lint.options import check_parser

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = ROOT / "docs" / "configuration.md"
KEYS_OF_PAGE = re.compile(r"(<!-- keys:begin -->\n).*?(<!-- keys:end -->\n)", re.DOTALL)
VALIDATOR = jsonschema.Draft7Validator(schema())


def test_the_schema_that_is_shipped_is_that_of_the_code(bless: bool) -> None:
    path = Path(SCHEMA)
    if bless:
        path.write_text(schema_text(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == schema_text(), "`pytest --bless` rewrites it"
    jsonschema.Draft7Validator.check_schema(schema())


def test_the_page_is_that_of_the_code(bless: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    current = KEYS_OF_PAGE.sub(lambda match: f"{match[1]}{table()}{match[2]}", text)
    if bless:
        PAGE.write_text(current, encoding="utf-8")
    else:
        assert text == current, "`pytest --bless` rewrites it"
    assert KEYS_OF_PAGE.search(text)


def test_every_key_is_in_the_loader_the_schema_and_the_page() -> None:
    assert list(schema()["properties"]) == list(KEYS)
    fields = set(config.Settings._fields) - {"root", "source", "nested", "baseline_source"}
    assert {key.field for key in KEYS.values()} == fields
    for name in KEYS:
        assert f"### `{name}`" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", KEYS)
def test_the_example_of_a_key_is_one(name: str, tmp_path: Path) -> None:
    key = KEYS[name]
    (tmp_path / "torchperf-lint.toml").write_text(f"{name} = {key.example}\n", encoding="utf-8")
    (tmp_path / "base.toml").write_text("", encoding="utf-8")
    assert getattr(config.load(str(tmp_path)), key.field) != getattr(config.Settings(), key.field)
    VALIDATOR.validate(tomllib.loads(f"{name} = {key.example}"))


@pytest.mark.parametrize("name", KEYS)
def test_an_option_that_is_named_exists(name: str) -> None:
    option = KEYS[name].option
    assert option is None or option in check_parser().format_help()
    assert option is not None or KEYS[name].form is Form.NAMES or name == "extend"


@pytest.mark.parametrize(
    "text",
    [
        "unknown = 1",
        'select = "TPL1"',
        "select = [1]",
        'select = ["TPL999"]',
        'select = ["tpl1"]',
        'ignore = [""]',
        "extend-select = {}",
        'per-file-ignores = ["a.py"]',
        'per-file-ignores = { "a.py" = "TPL1" }',
        'per-file-ignores = { "a.py" = ["TPL999"] }',
        'per-file-ignores = { "!a.py" = ["TPL1"] }',
        'per-file-ignores = { "" = ["TPL1"] }',
        "exclude = [1]",
        'exclude = [""]',
        'extend-exclude = "a"',
        "target-torch = 2.4",
        'target-torch = "new"',
        'target-torchmetrics = ""',
        'hot-functions = ["a b"]',
        'hot-functions = ["1a"]',
        'loader-names = ["a."]',
        'loader-names = [""]',
        'min-confidence = "sure"',
        "min-confidence = []",
        'min-severity = "fatal"',
        "fail-on = true",
        'baseline = ""',
        "baseline = 3",
        'force-exclude = "yes"',
        "extend = []",
        'unfixable = ["TPL999"]',
    ],
)
def test_a_wrong_value_is_refused_by_both(text: str, tmp_path: Path) -> None:
    (tmp_path / "torchperf-lint.toml").write_text(text, encoding="utf-8")
    with pytest.raises(config.BadConfig):
        config.load(str(tmp_path))
    assert not VALIDATOR.is_valid(tomllib.loads(text))


@pytest.mark.parametrize("selector", ["A", "ACM", "ACM1", "ACM101", "blocking-upload"])
def test_a_rule_of_another_package_is_none_of_ours_and_no_mistake(selector: str) -> None:
    for keys in ({"ignore": [selector]}, {"per-file-ignores": {"a.py": [selector, "TPL1"]}}):
        VALIDATOR.validate(keys)


@pytest.mark.parametrize("selector", ["TPL9", "TPLX101", "A1", "ACM1011", "acm101", "upload", "Blocking-upload"])
def test_what_no_package_may_call_a_rule_is_refused(selector: str) -> None:
    assert not VALIDATOR.is_valid({"ignore": [selector]})


TEXTS = st.one_of(
    st.sampled_from(
        ["TPL1", "TPL101", "T", "ALL", "item-in-hot-loop", "TPL001", "all", "2.4", "v1.6.1rc1+cu", "2.", "proven",
         "note", "error", "a/*.py", "!a", "#", "[", "step", "Agent.learn", "a b", "1a", "a..b", "_x1", "", " ", "\x00",
         "é", "²"]
    ),
    st.text(max_size=6),
)  # fmt: skip
VALUES = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
    st.lists(st.one_of(TEXTS, st.integers(0, 1)), max_size=3),
    st.dictionaries(TEXTS, st.one_of(TEXTS, st.lists(TEXTS, max_size=2)), max_size=2),
)
WIDE = (Form.GLOBS, Form.IGNORES, Form.NAMES)
"""Where the schema may accept what the loader refuses."""
OF_OTHERS = re.compile(r"(?!TPL)[A-Z]+[0-9]*|[a-z][a-z0-9]*(-[a-z0-9]+)+")


def only_the_loader_knows(form: Form, value: object) -> bool:
    """Whether the value names what may be a rule of another package, or has quotes of a shell."""
    if form is Form.SELECTORS:
        return isinstance(value, list) and any(isinstance(each, str) and OF_OTHERS.fullmatch(each) for each in value)
    return form is Form.COMMAND and isinstance(value, str) and any(each in value for each in "'\"\\")


@pytest.mark.slow
@pytest.mark.parametrize("form", Form)
@given(value=VALUES)
def test_both_accept_the_same(form: Form, value: object) -> None:
    key = next(key for key in KEYS.values() if key.form is form)
    try:
        key.read(value)
    except BAD_VALUES:
        accepted = False
    else:
        accepted = True
    valid = VALIDATOR.is_valid({key.name: value})
    assert valid or not accepted
    assert valid == accepted or form in WIDE or only_the_loader_knows(form, value)


def test_editors_find_it_in_the_package() -> None:
    assert json.loads(Path(SCHEMA).read_text(encoding="utf-8"))["title"] == "torchperf-lint"
