"""Versions from the project's own files: every format, which file wins, and what a broken one says: nothing."""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from linting import ROOT
from torchperf_lint import cli
from torchperf_lint.engine import registry, requirement_files, requirements
from torchperf_lint.engine.requirements import Requirements
from torchperf_lint.knowledge.versions import Bounds, Stated, Target, bounds_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is the root of a repository."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, **files: str) -> None:
    """Write files; `__` in a name stands for a slash."""
    for name, text in files.items():
        place = folder / name.replace("__", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(textwrap.dedent(text), encoding="utf-8")


def stated(path: str = "train.py", package: str = "torchmetrics") -> Stated | None:
    """What the project states for a file."""
    return getattr(Requirements().complete(Target(), path), package)


def said(path: str = "train.py", package: str = "torchmetrics") -> str | None:
    """Lowest version, end and place of what the project states for a file: `1.4..2 @ setup.py:3: torch>=1.4`."""
    known = stated(path, package)
    if known is None:
        return None
    lowest, end = (".".join(map(str, each or ())) for each in known[:2])
    return f"{'==' + lowest if lowest == end else lowest + '..' + end} @ {known.path}:{known.row}: {known.text}"


# -- specifiers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("specifier", "lowest", "end"),
    [
        (">=1.4", (1, 4), None),
        (" >= 1.4 , < 2 ", (1, 4), (2,)),
        (">=1.4,<2,", (1, 4), (2,)),
        ("<2,>=1.4,>=1.5,<3", (1, 5), (2,)),
        (">1.4", (1, 4), None),
        ("==1.4.0", (1, 4, 0), (1, 4, 0)),
        ("==1.4.0,<2", (1, 4, 0), (1, 4, 0)),
        ("===1.4", (1, 4), (1, 4)),
        ("==2.1.0+cu118", (2, 1, 0), (2, 1, 0)),
        ("==1.4.*", (1, 4), (1, 5)),
        ("==1.4.*,>=1.4.2", (1, 4, 2), (1, 5)),
        ("~=1.4", (1, 4), (2,)),
        ("~=1.4.2", (1, 4, 2), (1, 5)),
        (">=1.4,!=1.5.0", (1, 4), None),
        (">=2.6.0.dev20250101", (2, 6, 0), None),
        (">=1.4,<=1.9", (1, 4), None),
        ("<2", None, (2,)),
        ("!=1.5.*", None, None),
        ("", None, None),
    ],
)
def test_specifiers_of_pypa(specifier: str, lowest: object, end: object) -> None:
    assert bounds_of(specifier) == Bounds(lowest, end)
    assert bounds_of(specifier, wider=True) == Bounds(lowest, end)


@pytest.mark.parametrize(
    ("specifier", "lowest", "end"),
    [
        ("^1.4", (1, 4), (2,)),
        ("^0.4.2", (0, 4, 2), (0, 5)),
        ("^0.0", (0, 0), (0, 1)),
        ("~1.4", (1, 4), (1, 5)),
        ("~1.4.2", (1, 4, 2), (1, 5)),
        ("~1", (1,), (2,)),
        ("=1.4", (1, 4), (1, 5)),
        ("1.4", (1, 4), (1, 4)),
        ("1.*", (1,), (2,)),
    ],
)
def test_specifiers_of_poetry_and_conda(specifier: str, lowest: object, end: object) -> None:
    assert bounds_of(specifier, wider=True) == Bounds(lowest, end)
    assert bounds_of(specifier) == Bounds()


@pytest.mark.parametrize(
    "specifier",
    [
        "*",
        "latest",
        ">=",
        ">=x",
        "==1.*.2",
        ">=1.*",
        "~=1",
        "1!2.0",
        ">=1.4 || <1",
        "@ https://x/y.whl",
        ">=2,<1",
        ">1,<1",
    ],
)
def test_what_is_not_understood_bounds_nothing(specifier: str) -> None:
    assert bounds_of(specifier, wider=True) == bounds_of(specifier) == Bounds()


def test_a_range_meets_what_all_its_versions_meet() -> None:
    def target(text: str) -> Target:
        return Target(torchmetrics=Stated(*bounds_of(text), "requirements.txt", 1, "torchmetrics" + text))

    assert target(">=1.4").torchmetrics_is(">=1.6.2") is False
    assert target(">=1.4").torchmetrics_is("<1.6.2") is False
    assert target(">=1.4").torchmetrics_is(">=1.4,>1.3") is True
    assert target(">=1.4").torchmetrics_is("==1.4") is False
    assert target(">=1.4,<1.6.2").torchmetrics_is("<1.6.2") is True
    assert target(">=1.4,<1.6.2").torchmetrics_is("<=1.6.2") is True
    assert target(">=1.4,<1.6.3").torchmetrics_is("<1.6.2") is False
    assert target("==1.4.0").torchmetrics_is("<1.6.2,==1.4") is True
    assert target("==1.9.0").torchmetrics_is(">=1.6.2") is True
    assert target(">=1.4").torch_is(">=1.0") is None


# -- formats -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torchmetrics>=1.4\n", "1.4.. @ requirements.txt:1: torchmetrics>=1.4"),
        (
            "# the metrics\n\nTorchMetrics[image] >= 1.4  # since\n",
            "1.4.. @ requirements.txt:3: TorchMetrics[image] >= 1.4",
        ),
        (
            "numpy\ntorchmetrics~=1.4 ; python_version < '3.13'\n",
            "1.4..2 @ requirements.txt:2: torchmetrics~=1.4 ; python_version < '3.13'",
        ),
        (
            "torchmetrics==1.4.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via -r requirements.in\n",
            "==1.4.0 @ requirements.txt:1: torchmetrics==1.4.0",
        ),
        ("torchmetrics \\\n  >=1.4", "1.4.. @ requirements.txt:1: torchmetrics >=1.4"),
        ("torchmetrics (>=1.4,<2)\n", "1.4..2 @ requirements.txt:1: torchmetrics (>=1.4,<2)"),
        (
            "torchmetrics>=1.9; python_version>'3.9'\ntorchmetrics==1.4.0\n",
            "1.4.0.. @ requirements.txt:2: torchmetrics==1.4.0",
        ),
        ("torchmetrics\n", None),
        ("torchmetrics<1.6\n", None),
        ("torchmetrics 1.4\n", None),
        ("torchmetrics @ git+https://github.com/x/torchmetrics@v1.4.0\n", None),
        ("git+https://github.com/x/torchmetrics@v1.4.0\n-e ./torchmetrics\n--pre\n", None),
        ("# torchmetrics>=1.4\ntorchmetrics-plus>=1.4\nmy-torchmetrics>=1.4\n", None),
        ("\\\n\\\n--hash\n;\n[x]>=1\n", None),
    ],
)
def test_requirements(project: Path, text: str, expected: str | None) -> None:
    (project / "requirements.txt").write_text(text)
    assert said() == expected


def test_requirements_by_other_names_and_what_they_include(project: Path) -> None:
    write(
        project,
        **{
            "requirements-dev.txt": "-r deep/base.txt\n",
            "deep__base.txt": "-r ../requirements-dev.txt\n--constraint=all.txt\n",
        },
    )
    write(project, **{"deep__all.txt": "torchmetrics>=1.4\n", "deep__other.txt": "torchmetrics>=1.0\n"})
    assert said() == "1.4.. @ deep/all.txt:1: torchmetrics>=1.4"
    write(project, **{"requirements__metrics.txt": "torchmetrics>=1.2\n"})
    assert said() == "1.2.. @ requirements/metrics.txt:1: torchmetrics>=1.2"
    write(project, **{"notes.txt": "torchmetrics>=1.0\n", "requirements__notes.md": "torchmetrics>=1.0\n"})
    assert said() == "1.2.. @ requirements/metrics.txt:1: torchmetrics>=1.2"


@pytest.mark.parametrize("line", ["-rbase.txt", "-r base.txt", "--requirement base.txt", "-c base.txt", "-cbase.txt"])
def test_ways_to_include(project: Path, line: str) -> None:
    write(project, **{"requirements.txt": line, "base.txt": "torchmetrics>=1.4"})
    assert said() == "1.4.. @ base.txt:1: torchmetrics>=1.4"


def test_nothing_outside_the_project_is_included(project: Path) -> None:
    inner = project / "inner"
    write(project, **{"base.txt": "torchmetrics>=1.4\n"})
    write(inner, **{"requirements.txt": "-r ../base.txt\n-r missing.txt\n-r .\n-r https://example.org/base.txt\n"})
    (inner / ".git").mkdir()
    assert said("inner/train.py") is None
    (inner / ".git").rmdir()
    assert said("inner/train.py") == "1.4.. @ base.txt:1: torchmetrics>=1.4"


def test_utf16_that_powershell_writes(project: Path) -> None:
    (project / "requirements.txt").write_bytes("torch==2.4.0\r\ntorchmetrics==1.4.0\r\n".encode("utf-16"))
    assert said() == "==1.4.0 @ requirements.txt:2: torchmetrics==1.4.0"


PYPROJECT = {
    "project": (
        """
        # "torchmetrics>=1.4" is explained below
        [project]
        description = "torchmetrics>=1.4"
        dependencies = [
            "torch>=2.1",
            "torchmetrics>=1.4; python_version<\\"3.13\\"",
        ]
        """,
        '1.4.. @ pyproject.toml:7: torchmetrics>=1.4; python_version<"3.13"',
    ),
    "optional": (
        """
        [project.optional-dependencies]
        all = ["rich", "torchmetrics >=1.4, <2"]
        """,
        "1.4..2 @ pyproject.toml:3: torchmetrics >=1.4, <2",
    ),
    "groups": (
        """
        [dependency-groups]
        dev = [{ include-group = "metrics" }]
        metrics = ["torchmetrics~=1.4"]
        """,
        "1.4..2 @ pyproject.toml:4: torchmetrics~=1.4",
    ),
    "poetry": (
        """
        [tool.poetry.dependencies]
        python = "^3.10"
        torchmetrics = "^1.4"
        """,
        '1.4..2 @ pyproject.toml:4: torchmetrics = "^1.4"',
    ),
    "poetry table": (
        """
        [tool.poetry.group.dev.dependencies]
        torchmetrics = { version = "1.4.0", extras = ["image"] }
        """,
        '==1.4.0 @ pyproject.toml:3: torchmetrics = "1.4.0"',
    ),
    "poetry header": (
        """
        [tool.poetry.dependencies.torchmetrics]
        optional = true
        version = "~1.4"
        """,
        '1.4..1.5 @ pyproject.toml:4: torchmetrics = "~1.4"',
    ),
    "poetry several": (
        """
        [tool.poetry.dependencies]
        torchmetrics = [
            { version = "^1.6", python = ">=3.10" },
            { version = "^1.4", python = "<3.10" },
        ]
        """,
        '1.4.. @ pyproject.toml:3: torchmetrics = "^1.4"',
    ),
    "poetry path": ('[tool.poetry.dependencies]\ntorchmetrics = { path = "../torchmetrics" }\n', None),
    "uv": ('[tool.uv]\ndev-dependencies = ["torchmetrics>=1.4"]\n', "1.4.. @ pyproject.toml:2: torchmetrics>=1.4"),
    "pdm": ('[tool.pdm.dev-dependencies]\nx = ["torchmetrics>=1.4"]\n', "1.4.. @ pyproject.toml:2: torchmetrics>=1.4"),
    "to build": ('[build-system]\nrequires = ["torchmetrics>=1.4"]\n', None),
    "broken": ('[project]\ndependencies = ["torchmetrics>=1.4"\n', None),
    "of other types": (
        'project = ["torchmetrics>=1.4"]\ntool = "torchmetrics"\n[dependency-groups]\na = 3\nb = [4]\n',
        None,
    ),
    "of other types, inside": (
        '[project]\ndependencies = "torchmetrics>=1.4"\n[tool.poetry]\ngroup = 3\ndependencies = ["torchmetrics"]\n',
        None,
    ),
}


@pytest.mark.parametrize("case", PYPROJECT)
def test_pyproject(project: Path, case: str) -> None:
    text, expected = PYPROJECT[case]
    write(project, **{"pyproject.toml": text})
    assert said() == expected


SETUP_CFG = """
[metadata]
name = torchmetrics>=1.0
[options]
install_requires =
    torch>=2.1
    torchmetrics>=1.4; python_version<"3.13"
[options.extras_require]
full = torchmetrics>=1.6
"""


def test_setup_cfg(project: Path) -> None:
    write(project, **{"setup.cfg": SETUP_CFG})
    assert said() == '1.4.. @ setup.cfg:7: torchmetrics>=1.4; python_version<"3.13"'
    write(project, **{"setup.cfg": SETUP_CFG.replace("torchmetrics>=1.4;", "rich;")})
    assert said() == "1.6.. @ setup.cfg:9: torchmetrics>=1.6"
    write(project, **{"setup.cfg": "torchmetrics>=1.4\n[options\n"})
    assert said() is None


SETUP_PY = {
    "list": ('from setuptools import setup\n\nsetup(\n  install_requires=[\n    "torchmetrics>=1.4",\n  ],\n)\n', 5),
    "extras": ('import setuptools\nsetuptools.setup(extras_require={"a": ["x"], "b": ("torchmetrics>=1.4",)})\n', 2),
    "name": ('NEEDS: list[str] = ["torchmetrics>=1.4"]\nsetup(install_requires=NEEDS)\n', 1),
    "sum": ('A = ["x"]\nA += ["torchmetrics>=1.4"]\nsetup(install_requires=["y"] + A)\n', 2),
    "parts": ('E = {}\nE["a"] = ["torchmetrics>=1.4"]\nsetup(extras_require={**E, "b": [*E["a"]]})\n', 2),
    "text": ('setup(install_requires="""\n  torch\n  torchmetrics>=1.4\n""")\n', 3),
    "a name that is itself": ('A = ["torchmetrics>=1.4"]\nA = A + ["x"]\nsetup(install_requires=A)\n', 1),
    "poetry's": ('K = {"install_requires": ["torchmetrics>=1.4"], 3: 4, **x}\nsetup(**K)\n', 1),
    "other argument": ('setup(setup_requires=["torchmetrics>=1.4"])\n', None),
    "read from a file": ('setup(install_requires=open("torchmetrics>=1.4").read())\n', None),
    "not Python": ('setup(install_requires=["torchmetrics>=1.4"]\n', None),
    "not to be run": ('raise SystemExit("torchmetrics")\nsetup(install_requires=["torchmetrics>=1.4"])\n', 2),
}


@pytest.mark.parametrize("case", SETUP_PY)
def test_setup_py(project: Path, case: str) -> None:
    text, row = SETUP_PY[case]
    (project / "setup.py").write_text(text)
    assert said() == (None if row is None else f"1.4.. @ setup.py:{row}: torchmetrics>=1.4")


TOML_LOCK = """
version = 1

[[package]]
name = "lightning"
version = "2.4.0"
dependencies = [
    { name = "torchmetrics" },
]

[[package]]
name = "torchmetrics"
version = "1.4.0"
source = { registry = "https://pypi.org/simple" }
files = [
    {file = "torchmetrics-1.4.0.tar.gz"},
]

[package.metadata]
version = "9.9"
"""


@pytest.mark.parametrize("name", ["uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "pylock.dev.toml"])
def test_toml_locks(project: Path, name: str) -> None:
    header = "[[packages]]" if name.startswith("pylock") else "[[package]]"
    (project / name).write_text(TOML_LOCK.replace("[[package]]", header))
    assert said() == f"==1.4.0 @ {name}:13: torchmetrics==1.4.0"
    (project / name).write_bytes(TOML_LOCK.replace("[[package]]", header).replace("\n", "\r\n").encode())
    assert said() == f"==1.4.0 @ {name}:13: torchmetrics==1.4.0"
    (project / name).write_text(TOML_LOCK.replace("[[package]]", "[[other]]"))
    assert said() is None


def test_a_lock_with_two_versions_pins_neither(project: Path) -> None:
    again = '[[package]]\nname = "torchmetrics"\nversion = "1.2.0"\n'
    write(project, **{"uv.lock": TOML_LOCK + again, "requirements.txt": "torchmetrics>=1.0\n"})
    assert said() == "1.2.0.. @ uv.lock:23: torchmetrics==1.2.0"


def test_a_lock_without_a_version_or_within_a_merge_says_nothing(project: Path) -> None:
    write(project, **{"uv.lock": TOML_LOCK.replace('version = "1.4.0"\n', "")})
    assert said() is None
    versions = '<<<<<<< HEAD\nversion = "1.4.0"\n=======\nversion = "1.9.0"\n>>>>>>> other\n'
    write(project, **{"uv.lock": TOML_LOCK.replace('version = "1.4.0"\n', versions)})
    assert said() is None


def test_pipfile_lock(project: Path) -> None:
    develop = {"torch": {"version": "==2.4.0"}, "torchmetrics": {"hashes": ["sha256:aa"], "version": "==1.4.0"}}
    text = json.dumps({"default": {}, "develop": develop}, indent=4)
    write(project, **{"Pipfile.lock": text})
    assert said() == "==1.4.0 @ Pipfile.lock:11: torchmetrics==1.4.0"
    for broken in (
        text[:-5],
        '["torchmetrics"]',
        '{"default": {"torchmetrics": "==1.4.0"}}',
        '{"default": ["torchmetrics"]}',
    ):
        write(project, **{"Pipfile.lock": broken})
        assert said() is None


CONDA = """
# torchmetrics=0.1
name: torchmetrics
channels:
  - pytorch
  - torchmetrics>=0.1
dependencies:
  - python=3.11
  - ITEM  # why
  - pip
  - pip:
      - torchmetrics-extra>=0.1
      - PIP
  - rich
variables:
  - torchmetrics>=0.1
"""


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("torchmetrics>=1.4", "1.4.."),
        ("torchmetrics >=1.4,<2", "1.4..2"),
        ("torchmetrics=1.4", "1.4..1.5"),
        ("torchmetrics=1.4.*", "1.4..1.5"),
        ("torchmetrics==1.4.0", "==1.4.0"),
        ("torchmetrics=1.4.0=pyhd8ed1ab_0", "==1.4.0"),
        ("torchmetrics=1.4.*=cuda*", "1.4..1.5"),
        ("torchmetrics 1.4.0 pyhd8ed1ab_0", "==1.4.0"),
        ("conda-forge::torchmetrics=1.4", "1.4..1.5"),
        ("torchmetrics", None),
        ("torchmetrics>=1.4|<1", None),
        ("torchmetrics[version='>=1.4']", None),
    ],
)
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("name", ["environment.yml", "environment-gpu.yaml"])
def test_conda(project: Path, item: str, expected: str | None, quote: str, name: str) -> None:
    (project / name).write_text(CONDA.replace("ITEM", f"{quote}{item}{quote}").replace("PIP", "x"))
    assert said() == (None if expected is None else f"{expected} @ {name}:9: {item}")


def test_pip_within_conda_and_lists_without_indent(project: Path) -> None:
    write(project, **{"environment.yml": CONDA.replace("ITEM", "x").replace("PIP", "torchmetrics>=1.4")})
    assert said() == "1.4.. @ environment.yml:13: torchmetrics>=1.4"
    write(
        project,
        **{
            "environment.yml": CONDA.replace("ITEM", "x").replace("PIP", "-r base.txt"),
            "base.txt": "torchmetrics>=1.3",
        },
    )
    assert said() == "1.3.. @ base.txt:1: torchmetrics>=1.3"
    write(project, **{"environment.yml": "dependencies:\n- pip:\n  - x\n- torchmetrics=1.4.2\n"})
    assert said() == "1.4.2..1.4.3 @ environment.yml:4: torchmetrics=1.4.2"
    write(project, **{"environment.yml": "dependencies: [torchmetrics=1.4]\n"})
    assert said() is None


def test_condas_names_of_torch(project: Path) -> None:
    write(
        project,
        **{"environment.yml": "dependencies:\n  - pytorch-cuda=12.1\n  - pytorch-lightning=2\n  - torchvision=0.15\n"},
    )
    assert said(package="torch") is None
    write(project, **{"environment.yml": "dependencies:\n  - pytorch::pytorch=2.1\n"})
    assert said(package="torch") == "2.1..2.2 @ environment.yml:2: pytorch::pytorch=2.1"


# -- which one wins ------------------------------------------------------------------------------------------------


def test_locks_and_pins_go_before_ranges(project: Path) -> None:
    write(project, **{"pyproject.toml": '[project]\ndependencies = ["torchmetrics>=1.0"]\n'})
    assert said() == "1.0.. @ pyproject.toml:2: torchmetrics>=1.0"
    write(project, **{"requirements.txt": "torchmetrics==1.6.1\n"})
    assert said() == "==1.6.1 @ requirements.txt:1: torchmetrics==1.6.1"
    write(project, **{"uv.lock": TOML_LOCK})
    assert said() == "1.4.0.. @ uv.lock:13: torchmetrics==1.4.0"


def test_the_lowest_of_several_ranges_counts(project: Path) -> None:
    write(
        project,
        **{"requirements.txt": "torchmetrics>=1.6\n", "setup.py": 'setup(install_requires=["torchmetrics>=1.4"])\n'},
    )
    write(project, **{"requirements-dev.txt": "torchmetrics\n", "requirements-x.txt": "torchmetrics<1.3\n"})
    assert said() == "1.4.. @ setup.py:1: torchmetrics>=1.4"


def test_places_that_agree_keep_their_end(project: Path) -> None:
    write(project, **{"requirements.txt": "torchmetrics==1.4\n", "requirements-dev.txt": "torchmetrics==1.4.0\n"})
    assert stated().meets("<1.6.2")
    write(project, **{"requirements-dev.txt": "torchmetrics==1.9.0\n"})
    assert not stated().meets("<1.6.2")
    assert not stated().meets(">=1.6.2")


def test_the_nearest_folder_that_names_the_package_counts(project: Path) -> None:
    write(project, **{"requirements.txt": "torch>=2.0\ntorchmetrics>=1.2\n"})
    write(
        project,
        **{
            "a__pyproject.toml": '[project]\ndependencies = ["torchmetrics>=1.6"]\n',
            "b__requirements.txt": "torchmetrics\n",
        },
    )
    asked = Requirements()

    def lowest(path: str) -> list[object]:
        return [known and known.lowest for known in asked.complete(Target(), path)]

    assert lowest("train.py") == [(2, 0), (1, 2)]
    assert lowest("a/src/train.py") == [(2, 0), (1, 6)]
    assert lowest("b/deep/er/train.py") == [(2, 0), None]
    assert lowest("c/train.py") == [(2, 0), (1, 2)]


def test_nothing_above_the_root_is_read(project: Path) -> None:
    write(project, **{"requirements.txt": "torchmetrics>=1.2\n", "inner__train.py": ""})
    (project / "inner" / ".git").mkdir()
    assert said("inner/train.py") is None


def test_configuration_goes_before_files_and_only_for_what_it_names(project: Path) -> None:
    write(project, **{"requirements.txt": "torch>=2.0\ntorchmetrics>=1.2\n"})
    known = Requirements().complete(Target(torchmetrics=(1, 9)), "train.py")
    assert known.torchmetrics == (1, 9)
    assert known.torch == Stated((2, 0), None, "requirements.txt", 1, "torch>=2.0")
    assert pickle.loads(pickle.dumps(known)) == known
    assert Requirements().complete(Target((2, 4), (1, 9)), "train.py") == Target((2, 4), (1, 9))


def test_paths_are_shown_as_the_user_writes_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, **{"requirements.txt": "torchmetrics>=1.2\n", "src__train.py": ""})
    assert stated("src/train.py").path == "requirements.txt"
    assert stated(str(project / "src" / "train.py")).path == str((project / "requirements.txt").resolve())
    monkeypatch.chdir(project / "src")
    assert stated("train.py").path == "../requirements.txt"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"\xff\xfet",
        b"\x00torchmetrics>=",
        b"torchmetrics" + b"\xfe" * 50,
        b"[" * 5000 + b"torchmetrics",
        b"\r\r",
    ],
)
@pytest.mark.parametrize(
    "name",
    ["requirements.txt", "pyproject.toml", "setup.cfg", "setup.py", "uv.lock", "Pipfile.lock", "environment.yml"],
)
def test_any_bytes_are_read_without_a_word(project: Path, name: str, data: bytes) -> None:
    (project / name).write_bytes(data)
    assert Requirements().complete(Target(), "train.py") == Target()


def test_folders_pipes_and_giants_are_passed_over(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pyproject.toml").mkdir()
    (project / "requirements").write_text("torchmetrics>=1.4\n")
    (project / "requirements.txt").symlink_to("/dev/zero")
    (project / "setup.py").symlink_to("setup.py")
    assert said() is None
    write(project, **{"requirements-dev.txt": "torchmetrics>=1.4\n"})
    assert said() == "1.4.. @ requirements-dev.txt:1: torchmetrics>=1.4"
    monkeypatch.setattr(requirements, "_LARGEST", 10)
    assert said() is None


# -- in findings ---------------------------------------------------------------------------------------------------

TRAINING = """
import torch
from torchmetrics import MeanMetric

device = torch.device("cuda")


def train(model, loader, optimizer):
    mean = MeanMetric().to(device)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean.update(loss)
        mean.update(3)
    return mean.compute()
"""


@pytest.fixture
def lint(project: Path, capfd: pytest.CaptureFixture[str]):
    """Lint the training script: the findings on metrics by their codes."""
    write(project, **{"src__train.py": TRAINING})

    def run(*arguments: str) -> dict[str, dict]:
        status = cli.main(["--no-cache", "--select", "TPL3", "--output-format", "json", *(arguments or ["src"])])
        out, err = capfd.readouterr()
        assert (status, err) == (1, "")
        return {found["code"]: found for found in json.loads(out)}

    return run


def evidence(found: dict) -> list[str]:
    """The steps of a finding that are not in the linted file."""
    steps = [step for step in found["because"] if not step["filename"].endswith("train.py")]
    return [f"{step['filename']}:{step['row']}: {step['message']}" for step in steps]


def graded(found: dict) -> str | None:
    return found["fix"] and found["fix"]["applicability"]


def new_text(found: dict) -> list[str]:
    return [edit["content"] for edit in found["fix"]["edits"]]


def test_what_every_version_that_may_run_can_do_is_suggested(project: Path, lint) -> None:
    write(project, **{"requirements.txt": "torch\ntorchmetrics>=1.6.2\n"})
    found = lint()
    assert sorted(found) == ["TPL301", "TPL302"]
    assert (graded(found["TPL301"]), graded(found["TPL302"])) == ("unsafe", "safe")
    assert evidence(found["TPL301"]) == evidence(found["TPL302"]) == ["requirements.txt:2: torchmetrics>=1.6.2"]


def test_what_the_lowest_version_cannot_do_is_not_suggested(project: Path, lint) -> None:
    write(project, **{"requirements.txt": "torch\ntorchmetrics>=1.4\n"})
    found = lint()
    assert sorted(found) == ["TPL301", "TPL302"], "a newer version may run, which sends no default weight"
    text = "".join(new_text(found["TPL301"]))
    assert graded(found["TPL301"]) == "unsafe"
    assert "class UncheckedMeanMetric(" in text, "a subclass does it in any version"
    assert "nan_strategy" not in text
    assert evidence(found["TPL301"]) == ["requirements.txt:2: torchmetrics>=1.4"]
    assert "weight=torch.ones(())" in "".join(new_text(found["TPL302"])), "right for any version"


def test_an_old_version_is_said_to_send_the_default_weight(project: Path, lint) -> None:
    write(project, **{"uv.lock": TOML_LOCK})
    found = lint()
    assert sorted(found) == ["TPL301", "TPL302", "TPL303"]
    assert evidence(found["TPL303"]) == ["uv.lock:13: torchmetrics==1.4.0"]


def test_an_unknown_version_names_no_file(project: Path, lint) -> None:
    write(project, **{"requirements.txt": "torchmetrics\n"})
    found = lint()
    assert sorted(found) == ["TPL301", "TPL302"]
    assert (graded(found["TPL301"]), graded(found["TPL302"])) == ("display", "unsafe")
    assert evidence(found["TPL301"]) == evidence(found["TPL302"]) == []


@pytest.mark.parametrize("arguments", [["--isolated"], ["--target-torchmetrics", "1.9"]])
def test_files_are_not_read_where_they_do_not_count(project: Path, lint, monkeypatch, arguments: list[str]) -> None:
    write(project, **{"requirements.txt": "torchmetrics==1.4.0\n", "pyproject.toml": "", "setup.py": ""})
    if arguments == ["--isolated"]:
        monkeypatch.setattr(requirements, "_read", None)
    found = lint(*arguments, "src")
    assert sorted(found) == ["TPL301", "TPL302"]
    assert evidence(found["TPL301"]) == []


@pytest.mark.usefixtures("lint")
def test_nothing_is_read_where_no_rule_asks(project: Path, monkeypatch) -> None:
    write(
        project,
        **{
            "requirements.txt": "torchmetrics==1.4.0\n",
            "other.py": "import torch\n\nnet = torch.nn.Linear(2, 2).cuda()\n",
        },
    )
    monkeypatch.setattr(requirements, "_read", None)
    assert cli.main(["--no-cache", "-q", "--select", "TPL101,TPL203", "src"]) in (0, 1)
    assert cli.main(["--no-cache", "-q", "--select", "TPL3", "other.py"]) in (0, 1)
    assert cli.main(["--no-cache", "-q", "--select", "TPL3", "src"]) == 2, "only here they are asked for"


def test_standard_input_belongs_to_the_project_that_its_name_lies_in(project: Path) -> None:
    write(project, **{"requirements.txt": "torchmetrics==1.4.0\n"})

    def codes(*arguments: str) -> set[str]:
        command = [sys.executable, "-m", "torchperf_lint", "--no-cache", "--select", "TPL3", "--output-format", "json"]
        done = subprocess.run([*command, *arguments, "-"], input=TRAINING, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        return {found["code"] for found in json.loads(done.stdout)}

    assert codes("--stdin-filename", "src/train.py") == {"TPL301", "TPL302", "TPL303"}
    assert codes("--stdin-filename", "src/train.py", "--isolated") == {"TPL301", "TPL302"}
    assert codes() == {"TPL301", "TPL302"}


def test_rules_declare_whose_version_they_ask_for() -> None:
    for rule in registry.all_rules():
        module = importlib.import_module(rule.check.__module__).__file__
        with open(module, encoding="utf-8") as file:
            asks = "model.target" in file.read()
        assert asks == bool(rule.asks), f"{rule.code}: asks={rule.asks}"


def test_our_own_requirements_are_found() -> None:
    known = Requirements().complete(Target(), str(ROOT / "torchperf_lint" / "cli.py"))
    assert (known.torch.lowest, known.torchmetrics.lowest) == ((2, 1), (1,))
    assert known.torch.text == "torch>=2.1"


def test_rows_are_found_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of the whole file for each requirement would take hours where there are very many."""
    monkeypatch.setattr(requirement_files, "_row_of", None)
    lines = [f'  "torch>=2.{n}",  # "torch>=9.{n}",\n' for n in range(300)]
    text = "[project]\ndependencies = [\n" + "".join(lines) + "]\n"
    read = requirement_files._read_pyproject(text, {"torch"})
    assert [each.row for each in read.mentions] == list(range(3, 303))
    text = "[options]\ninstall_requires = torch>=1.0\n" + "".join(f"  torch>=2.{n}\n" for n in range(300))
    read = requirement_files._read_setup_cfg(text, {"torch"})
    assert [each.row for each in read.mentions] == list(range(2, 303))


def test_a_lock_file_that_states_very_much_of_a_package_states_nothing() -> None:
    block = '[[package]]\nname = "torch"\nversion = "2.1"\n\n'
    for count, found in ((1, 1), (requirement_files.MOST_STATEMENTS + 1, 0)):
        assert len(requirement_files._read_toml_lock(block * count, {"torch"}).mentions) == found
