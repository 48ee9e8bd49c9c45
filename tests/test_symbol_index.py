"""Resolution of names across files: modules, re-exports, and the callers of a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.model.program import Program
from torchperf_lint.model.project.exports import LibraryName, ModuleName, Variable
from torchperf_lint.model.project.file_symbols import symbols_of
from torchperf_lint.model.project.module_resolver import ModuleResolver
from torchperf_lint.model.project.symbol_index import SymbolIndex
from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo

if TYPE_CHECKING:
    from torchperf_lint.model.project.exports import Meaning

ROOT = "/p"


def modules(*paths: str) -> ModuleResolver:
    return ModuleResolver([f"{ROOT}/{path}" for path in paths], ROOT)


def found(known: ModuleResolver, module: str, importer: str) -> str | None:
    path = known.find(module, f"{ROOT}/{importer}")
    return None if path is None else path.removeprefix(f"{ROOT}/")


# -- names of files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("train.py", "train"),
        ("pkg/__init__.py", "pkg"),
        ("pkg/a.py", "pkg.a"),
        ("pkg/sub/__init__.py", "pkg.sub"),
        ("pkg/sub/b.py", "pkg.sub.b"),
        ("src/lib/__init__.py", "lib"),
        ("src/lib/c.py", "lib.c"),
        ("spaces/no/init/d.py", "spaces.no.init.d"),
        ("pkg/loose/e.py", "pkg.loose.e"),
    ],
)
def test_name_under_which_a_file_is_imported(path: str, name: str) -> None:
    known = modules("pkg/__init__.py", "pkg/a.py", "pkg/sub/__init__.py", "pkg/sub/b.py", "src/lib/__init__.py", path)
    assert known.name_of(f"{ROOT}/{path}") == name


@pytest.mark.parametrize(
    ("written", "path", "name"),
    [
        ("a.b", "pkg/sub/b.py", "a.b"),
        (".x", "pkg/sub/b.py", "pkg.sub.x"),
        ("..x", "pkg/sub/b.py", "pkg.x"),
        (".", "pkg/sub/b.py", "pkg.sub"),
        ("..", "pkg/sub/b.py", "pkg"),
        (".x", "pkg/sub/__init__.py", "pkg.sub.x"),
        ("..x.y", "pkg/sub/__init__.py", "pkg.x.y"),
        ("....x", "pkg/sub/b.py", "x"),
    ],
)
def test_leading_dots_count_from_the_package(written: str, path: str, name: str) -> None:
    known = modules("pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/b.py")
    assert known.absolute(written, f"{ROOT}/{path}") == name


# -- modules -------------------------------------------------------------------------------------------------------


def test_modules_of_the_folders_up_to_the_root_are_found() -> None:
    known = modules("utils.py", "deep/er/train.py", "deep/other.py", "pkg/__init__.py", "pkg/a.py")
    assert found(known, "utils", "deep/er/train.py") == "utils.py"
    assert found(known, "other", "deep/er/train.py") == "deep/other.py"
    assert found(known, "pkg", "deep/er/train.py") == "pkg/__init__.py"
    assert found(known, "pkg.a", "deep/er/train.py") == "pkg/a.py"
    assert found(known, "deep.other", "utils.py") == "deep/other.py"
    assert found(known, "other", "utils.py") is None
    assert found(known, "missing", "deep/er/train.py") is None


def test_nothing_above_the_root_is_found() -> None:
    known = ModuleResolver(["/p/utils.py", "/p/inner/train.py"], "/p/inner")
    assert known.find("utils", "/p/inner/train.py") is None


def test_the_nearest_of_several_modules_is_meant() -> None:
    known = modules("utils.py", "a/utils.py", "a/train.py", "a/b/train.py", "c/train.py", "c/d/utils.py")
    assert found(known, "utils", "a/train.py") == "a/utils.py"
    assert found(known, "utils", "a/b/train.py") == "a/utils.py"
    assert found(known, "utils", "c/train.py") == "utils.py"


def test_a_neighbour_inside_a_package_comes_after_what_lies_outside() -> None:
    known = modules("utils.py", "pkg/__init__.py", "pkg/utils.py", "pkg/other.py", "pkg/train.py")
    assert found(known, "utils", "pkg/train.py") == "utils.py"
    assert found(known, "other", "pkg/train.py") == "pkg/other.py"


def test_frameworks_are_meant_inside_a_package_only() -> None:
    paths = ("pkg/__init__.py", "pkg/lightning/__init__.py", "pkg/trainer.py", "tool/lightning.py", "tool/run.py")
    known = modules(*paths, "other/transformers.py", "other/run.py", "pkg/datasets.py")
    assert found(known, "lightning", "pkg/trainer.py") is None
    assert found(known, "lightning.pytorch", "pkg/trainer.py") is None
    assert found(known, "pkg.lightning", "pkg/trainer.py") == "pkg/lightning/__init__.py"
    assert found(known, "lightning", "tool/run.py") == "tool/lightning.py"
    assert found(known, "transformers", "other/run.py") == "other/transformers.py"
    assert found(known, "datasets", "pkg/trainer.py") == "pkg/datasets.py"


def test_standard_names_mean_the_library_inside_a_package_only() -> None:
    known = modules("pkg/__init__.py", "pkg/types.py", "pkg/logging.py", "pkg/train.py", "tool/queue.py", "tool/run.py")
    assert found(known, "types", "pkg/train.py") is None
    assert found(known, "logging", "pkg/train.py") is None
    assert found(known, "pkg.types", "pkg/train.py") == "pkg/types.py"
    assert found(known, "queue", "tool/run.py") == "tool/queue.py"


def test_standard_names_never_mean_a_distant_copy_of_the_library() -> None:
    library = ("python/lib/json/__init__.py", "python/lib/json/decoder.py", "python/lib/os.py")
    known = modules(*library, "tool/run.py", "src/trace/__init__.py", "src/trace/meter.py")
    assert found(known, "json", "tool/run.py") is None
    assert found(known, "json.decoder", "tool/run.py") is None
    assert found(known, "json", "python/lib/os.py") == "python/lib/json/__init__.py"
    assert found(known, "trace.meter", "tool/run.py") == "src/trace/meter.py"


def test_a_package_goes_before_a_module_of_its_name() -> None:
    known = modules("pkg.py", "pkg/__init__.py", "train.py")
    assert found(known, "pkg", "train.py") == "pkg/__init__.py"


def test_folders_that_hold_packages_are_searched() -> None:
    known = modules("src/lib/__init__.py", "src/lib/a.py", "scripts/train.py", "tests/test_a.py")
    assert found(known, "lib.a", "scripts/train.py") == "src/lib/a.py"
    assert found(known, "lib", "tests/test_a.py") == "src/lib/__init__.py"


def test_of_two_packages_the_nearer_is_meant_and_neither_if_both_are_as_near() -> None:
    known = modules(
        *("one/src/lib/__init__.py", "one/scripts/train.py", "two/src/lib/__init__.py", "two/scripts/train.py"),
        "scripts/train.py",
    )
    assert found(known, "lib", "one/scripts/train.py") == "one/src/lib/__init__.py"
    assert found(known, "lib", "two/scripts/train.py") == "two/src/lib/__init__.py"
    assert found(known, "lib", "scripts/train.py") is None


def test_the_order_of_paths_does_not_matter() -> None:
    paths = ["one/src/lib/__init__.py", "two/src/lib/__init__.py", "two/scripts/train.py", "lib.py"]
    there, back = modules(*paths), modules(*reversed(paths))
    assert found(there, "lib", paths[2]) == found(back, "lib", paths[2]) == "lib.py"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("pkg", ("pkg/__init__.py", "")),
        ("pkg.a", ("pkg/a.py", "")),
        ("pkg.a.f", ("pkg/a.py", "f")),
        ("pkg.a.C.method", ("pkg/a.py", "C.method")),
        ("pkg.f", ("pkg/__init__.py", "f")),
        ("other.f", None),
        ("torch.nn.Linear", None),
        ("numpy", None),
    ],
)
def test_the_longest_part_of_a_name_that_is_a_module(name: str, place: tuple[str, str] | None) -> None:
    known = modules("pkg/__init__.py", "pkg/a.py", "train.py", "torch/nn.py", "numpy.py")
    split = known.split(name, f"{ROOT}/train.py")
    assert split == (None if place is None else (f"{ROOT}/{place[0]}", place[1]))


# -- meanings ------------------------------------------------------------------------------------------------------


def program(files: dict[str, str]) -> Program:
    data = {f"{ROOT}/{path}": code.encode() for path, code in files.items()}
    return Program({key: symbols_of(each) for key, each in data.items()}, ROOT, Hints(), data.__getitem__)


def meaning(files: dict[str, str], ref: str, importer: str = "main.py") -> Meaning | None:
    known = program({"main.py": "", **files})
    analyzed = known.analyzed(f"{ROOT}/{importer}")
    assert analyzed is not None
    return known.meaning(ref, analyzed.index)


def place(meant: Meaning | None) -> str:
    """The file and the name of a definition."""
    assert isinstance(meant, (FunctionInfo, ClassInfo))
    return f"{meant.index.path.removeprefix(ROOT + '/')}:{meant.name}"


def test_definitions_and_variables_of_a_module() -> None:
    files = {"a.py": "def f(): pass\nclass C: pass\nx = 1\nif x:\n    def g(): pass\n"}
    assert place(meaning(files, "a.f")) == "a.py:f"
    assert place(meaning(files, "a.C")) == "a.py:C"
    assert place(meaning(files, "a.g")) == "a.py:g"
    variable = meaning(files, "a.x")
    assert isinstance(variable, Variable)
    assert variable.name == "x"
    assert meaning(files, "a.missing") is None
    assert meaning(files, "a") == ModuleName("a")
    assert meaning(files, "torch.nn.Linear") == LibraryName("torch.nn.Linear")


def test_reexports_are_followed() -> None:
    files = {
        "pkg/__init__.py": "from .one import f as g\nfrom .two import *\nfrom . import one\n",
        "pkg/one.py": "def f(): pass\n",
        "pkg/two.py": "from pkg.three import deep\nfrom torch import nn\ndef h(): pass\n",
        "pkg/three.py": "def deep(): pass\n",
    }
    assert place(meaning(files, "pkg.g")) == "pkg/one.py:f"
    assert place(meaning(files, "pkg.h")) == "pkg/two.py:h"
    assert place(meaning(files, "pkg.deep")) == "pkg/three.py:deep"
    assert place(meaning(files, "pkg.one.f")) == "pkg/one.py:f"
    assert meaning(files, "pkg.two.nn.Linear") == LibraryName("torch.nn.Linear")
    assert meaning(files, "pkg.f") is None


def test_the_first_of_alternative_imports_is_meant_and_a_definition_goes_before_both() -> None:
    files = {
        "a.py": "try:\n    from torch import compile\nexcept ImportError:\n    from b import compile\n",
        "b.py": "def compile(): pass\n",
        "c.py": "from b import compile\ndef compile(): pass\n",
    }
    assert meaning(files, "a.compile") == LibraryName("torch.compile")
    assert place(meaning(files, "c.compile")) == "c.py:compile"


def test_cyclic_reexports_end() -> None:
    files = {
        "a.py": "from b import f\nfrom b import *\n",
        "b.py": "from a import f\nfrom a import *\nfrom c import g\n",
        "c.py": "from b import g\nfrom c import h\n",
    }
    assert meaning(files, "a.f") is None
    assert meaning(files, "a.g") is None
    assert meaning(files, "c.h") is None
    assert meaning(files, "a.unknown") is None


def test_a_cycle_of_stars_does_not_hide_a_definition() -> None:
    files = {"a.py": "from b import *\n", "b.py": "from a import *\nfrom c import *\n", "c.py": "def f(): pass\n"}
    assert place(meaning(files, "a.f")) == "c.py:f"
    assert place(meaning(files, "b.f")) == "c.py:f"


def test_names_of_a_star_import() -> None:
    files = {
        "main.py": "from a import *\nfrom torch.nn import *\n",
        "a.py": "from b import *\nimport inner\nx = 1\ndef f(): pass\ndef _private(): pass\n",
        "b.py": "from a import *\nclass C: pass\n",
        "inner.py": "",
    }
    known = program(files)
    analyzed = known.analyzed(f"{ROOT}/main.py")
    assert analyzed is not None
    names = ["C", "f", "x", "inner", "_private", "print", "Linear"]
    assert [name for name in names if known.starred(name, analyzed.index)] == ["C", "f", "x", "inner"]


@pytest.mark.parametrize("data", ["def f(:\n", "\x00", "# -*- coding: no-such-codec -*-\n"])
def test_a_file_that_cannot_be_read_means_nothing(data: str) -> None:
    files = {"main.py": "", "a.py": data, "b.py": "from a import f\ndef g(): pass\n"}
    assert meaning(files, "a.f") is None
    assert meaning(files, "b.f") is None
    assert place(meaning(files, "b.g")) == "b.py:g"


def test_a_file_that_is_gone_means_nothing() -> None:
    def read(key: str) -> bytes:
        if key.endswith("gone.py"):
            raise FileNotFoundError(key)
        return b"from gone import f\n"

    facts = {f"{ROOT}/{path}": symbols_of(b"") for path in ("main.py", "gone.py")}
    known = Program(facts, ROOT, Hints(), read)
    analyzed = known.analyzed(f"{ROOT}/main.py")
    assert analyzed is not None
    assert known.meaning("gone.f", analyzed.index) is None


# -- callers and accelerators --------------------------------------------------------------------------------------

FILES = {
    "pkg/__init__.py": "from .helpers import read as reads\n",
    "pkg/helpers.py": "def read(x):\n    return x\n\n\nclass Meter:\n    def update(self, x):\n        pass\n",
    "by_name.py": "from pkg.helpers import read\nread(1)\n",
    "by_module.py": "import pkg.helpers\npkg.helpers.read(1)\n",
    "by_other_name.py": "from pkg.helpers import read as r\nr(1)\n",
    "namesake.py": "def read(x): pass\nread(1)\n",
    "other_import.py": "from elsewhere import read\nread(1)\n",
    "by_object.py": "from pkg.helpers import Meter\nMeter().update(1)\n",
    "tests/test_read.py": "from pkg.helpers import read\nread(1)\n",
}


def callers(name: str, files: dict[str, str] = FILES, home: str = "pkg/helpers.py") -> set[str]:
    known = program(files)
    analyzed = known.analyzed(f"{ROOT}/{home}")
    assert analyzed is not None
    (function,) = [each for each in analyzed.index.functions if each.name == name]
    return {record.function.index.path.removeprefix(ROOT + "/") for record in known.calls_elsewhere(function, 40)}


def test_callers_are_the_files_that_import_the_function() -> None:
    assert callers("read") == {"by_name.py", "by_module.py", "by_other_name.py"}


@pytest.mark.parametrize(
    "package",
    ["from .impl import *\nregister(read)\n", '"""Usage:\n\nfrom pkg import read\n"""\nfrom .impl import *\n'],
)
def test_a_name_that_a_package_has_by_a_star_leads_to_its_file(package: str) -> None:
    files = {"pkg/__init__.py": package, "pkg/impl.py": "def read(): pass\n", "main.py": "import pkg\npkg.read()\n"}
    assert place(meaning(files, "pkg.read")) == "pkg/impl.py:read"
    assert callers("read", files, "pkg/impl.py") == {"main.py"}


def test_callers_of_a_method_are_found_by_its_name() -> None:
    assert callers("update") == {"by_object.py"}


def test_tests_call_only_what_is_in_tests() -> None:
    files = {"tests/helpers.py": "def read(x): pass\n", "tests/test_read.py": "from helpers import read\nread(1)\n"}
    assert callers("read", files, "tests/helpers.py") == {"tests/test_read.py"}


def test_files_that_an_accelerated_file_imports_are_reached() -> None:
    known = program(
        {
            "gpu.py": "from one import f\nx.cuda()\n",
            "one.py": "import two\n",
            "two.py": "def g(): pass\n",
            "host.py": "import three\n",
            "three.py": "import one\n",
            "tests/test_gpu.py": "import four\nx.cuda()\n",
            "four.py": "",
        }
    )
    reached = {name for name in ("gpu", "one", "two", "host", "three", "four") if known.reached(f"{ROOT}/{name}.py")}
    assert reached == {"gpu", "one", "two"}


# -- who may mean a function ---------------------------------------------------------------------------------------

CALLERS = {
    "pkg/__init__.py": "from pkg.helpers import accuracy\n",
    "pkg/helpers.py": "def accuracy(): pass\n",
    "pkg/many.py": "from pkg.helpers import *\n",
    "pkg/other.py": "def speed(): pass\n",
    "by_name.py": "from pkg.helpers import accuracy\naccuracy()\n",
    "by_another.py": "from pkg.helpers import accuracy as score\nscore()\n",
    "by_module.py": "from pkg import helpers\nhelpers.accuracy()\n",
    "by_package.py": "import pkg\npkg.accuracy()\n",
    "by_star.py": "from pkg.many import *\naccuracy()\n",
    "an_own.py": "from pkg import other\ndef accuracy(): pass\naccuracy()\nother.speed()\n",
    "a_method.py": "from pkg.other import speed\nspeed().accuracy()\n",
    "uncalled.py": "from pkg.helpers import accuracy\nprint(accuracy)\n",
}


def test_files_that_may_call_a_function_are_told_by_their_imports() -> None:
    facts = {f"{ROOT}/{path}": symbols_of(text.encode()) for path, text in CALLERS.items()}
    files = SymbolIndex(facts, ROOT).calling_imported("accuracy", f"{ROOT}/pkg/helpers.py")
    assert files == [f"{ROOT}/{path}" for path in sorted(CALLERS) if path.startswith("by_")]


def test_a_function_costs_no_query_for_each_file_that_calls_another_of_its_name() -> None:
    """Queries on all files are stored as dependencies: they must not grow with functions times files."""

    def questions(strangers: int) -> int:
        texts = {
            "helpers.py": "def accuracy(): pass\n",
            "train.py": "from helpers import accuracy\naccuracy()\n",
            "other.py": "def speed(): pass\n",
            **{f"own{n}.py": CALLERS["an_own.py"].replace("from pkg ", "") for n in range(strangers)},
        }
        data = {f"{ROOT}/{path}": text.encode() for path, text in texts.items()}
        facts = {key: symbols_of(content) for key, content in data.items()}
        program = Program(facts, ROOT, Hints(), data.__getitem__)
        analyzed = program.analyzed(f"{ROOT}/helpers.py")
        assert analyzed is not None
        (function,) = (each for each in analyzed.index.functions if each.name == "accuracy")
        (call,) = program.calls_elsewhere(function, most=24)
        assert call.function.index.path == f"{ROOT}/train.py"
        dependencies = program.recorder.dependencies()
        assert dependencies is not None
        return len(dependencies.asked)

    assert questions(40) == questions(2)
