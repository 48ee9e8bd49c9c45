"""The function `_sent` that fixes write into files: what goes to no GPU goes as it did before."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from torchperf_lint.idioms.written_helpers import SENT
from torchperf_lint.knowledge.topics import SCRIPTED, SCRIPTS_VALUES, TRACED
from torchperf_lint.model.project.file_symbols import topics_of


class Batch:
    """An object of its own class, whose method takes the device alone."""

    def to(self, device: str) -> str:
        return f"moved to {device}"


class Named(torch.Tensor):
    """A tensor of another class, which its own `to` keeps."""

    def to(self, *args: Any, **kwargs: Any) -> Any:
        return "moved by its own method"


_TEXT = "\n".join(line.format(torch="torch") for line in SENT.lines)


def _sent() -> Any:
    space: dict[str, Any] = {"torch": torch}
    exec(_TEXT, space)
    return space[SENT.name]


def test_objects_are_moved_by_their_own_method() -> None:
    assert _sent()(Batch(), "cuda") == "moved to cuda"


def test_other_devices_get_what_they_got() -> None:
    tensor = torch.arange(6.0)
    assert _sent()(tensor, "meta").device.type == "meta"
    assert _sent()(tensor, torch.device("meta")).device.type == "meta"
    assert _sent()(tensor, "cpu") is tensor
    assert _sent()(tensor.to("meta"), "meta").device.type == "meta"


def test_sparse_tensors_are_moved_as_they_are() -> None:
    sparse = torch.eye(2).to_sparse()
    assert _sent()(sparse, "cpu") is sparse


def test_no_device_is_left_to_the_tensor() -> None:
    tensor = torch.arange(6.0)
    assert _sent()(tensor, None) is tensor


def test_tensors_of_other_classes_are_moved_by_their_own_method() -> None:
    assert _sent()(torch.arange(6.0).as_subclass(Named), "cuda") == "moved by its own method"


def test_what_is_no_device_is_left_to_the_tensor() -> None:
    tensor = torch.arange(6.0)
    assert _sent()(tensor, torch.float64).dtype == torch.float64
    assert _sent()(tensor, torch.zeros(1, dtype=torch.int16)).dtype == torch.int16
    with pytest.raises(TypeError):
        _sent()(tensor, [])


def test_a_machine_without_cuda_raises_what_it_raised() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises((AssertionError, RuntimeError)) as before:
        torch.arange(6.0).to("cuda")
    with pytest.raises((AssertionError, RuntimeError)) as after:
        _sent()(torch.arange(6.0), "cuda")
    assert (before.type, str(before.value)) == (after.type, str(after.value))


_MODULE = """import torch


{helper}


def plain(x):
    return x + torch.tensor([1.0, 2.0]).to(x.device)


def sent(x):
    return x + _sent(torch.tensor([1.0, 2.0]), x.device)


def named(x):
    return x + _sent(torch.tensor([1.0, 2.0]), "cpu")


class Plain(torch.nn.Module):
    def forward(self, x):
        return plain(x)


class Sent(torch.nn.Module):
    def forward(self, x):
        return sent(x)
"""


@pytest.fixture(name="module")
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with the function and its callers, in which the CPU stands for the GPU that it would copy to."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    helper = _TEXT.replace('== "cuda"', '== "cpu"').replace(", pin_memory=True", "")
    assert helper.count('"cpu"') == 1
    path = tmp_path / "with_sent.py"
    path.write_text(_MODULE.format(helper=helper), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("with_sent", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "with_sent", module)
    spec.loader.exec_module(module)
    return module


def _operators(graph: Any) -> list[str]:
    return [node.kind() for node in graph.nodes()]


@pytest.mark.filterwarnings("ignore")
def test_torchscript_compiles_the_move_alone(module: Any) -> None:
    x = torch.zeros(2)
    for function in (module.sent, module.named, module.Sent()):
        scripted = torch.jit.script(function)
        assert torch.equal(scripted(x), torch.tensor([1.0, 2.0]))
        assert "aten::empty_like" not in str(scripted.inlined_graph)


@pytest.mark.filterwarnings("ignore")
def test_traces_and_exports_have_the_move_alone(module: Any) -> None:
    x = torch.zeros(2)
    traced, before = torch.jit.trace(module.sent, (x,)), torch.jit.trace(module.plain, (x,))
    assert _operators(traced.graph) == _operators(before.graph)
    exported, plain = (torch.export.export(each, (x,)) for each in (module.Sent(), module.Plain()))
    assert [node.target for node in exported.graph.nodes] == [node.target for node in plain.graph.nodes]


_COMPILED = """
graphs = []


def keep(graph, _):
    graphs.append([(node.op, str(node.target)) for node in graph.graph.nodes])
    return graph.forward


torch.cuda.is_initialized = lambda: True
for function in (sent, plain):
    torch.compile(function, backend=keep, fullgraph=True)(torch.zeros(2))
print(*graphs, sep="\\n")
"""


@pytest.mark.slow
def test_compiled_graphs_have_the_move_alone(module: Any, tmp_path: Path) -> None:
    # In a process of its own: the compiler knows torch's functions by those it finds when it is first used,
    # and here these may be the simulated device's.
    program = tmp_path / "compiled.py"
    program.write_text(Path(module.__file__).read_text(encoding="utf-8") + _COMPILED, encoding="utf-8")
    run = subprocess.run([sys.executable, "-W", "ignore", program], check=True, capture_output=True, text=True)
    sent, plain = run.stdout.splitlines()
    assert "add" in plain
    assert sent == plain


_ON_A_GPU = """
tensor = torch.arange(6.0, requires_grad=True)
calls = []
empty_like = torch.empty_like
torch.cuda.is_initialized = lambda: True
torch.empty_like = lambda *args, **kwargs: calls.append(kwargs) or empty_like(*args)
torch.Tensor.to = lambda tensor, *args, **kwargs: calls.append((args, kwargs)) or tensor
"""


def _calls(before: str) -> str:
    """What a process asks torch for, whose GPU is there as far as it can tell."""
    run = f"import torch\n{_TEXT}\n{_ON_A_GPU}\n{before}\n_sent(tensor, 'cuda')\nprint(calls)"
    return subprocess.run([sys.executable, "-c", run], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_on_a_gpu_it_pins_and_does_not_wait() -> None:
    pinned = "[{'pin_memory': True}, (('cuda',), {'non_blocking': True})]"
    assert _calls("") == pinned
    assert _calls("del torch.compiler, torch.compile") == pinned, "a release without compilers"


@pytest.mark.slow
def test_releases_whose_compiler_does_not_say_that_it_runs_move_as_before() -> None:
    assert _calls("del torch.compiler") == "[(('cuda',), {})]"
    assert _calls("del torch.compiler.is_compiling") == "[(('cuda',), {})]"
    assert _calls("torch.compiler.is_compiling = lambda: True") == "[(('cuda',), {})]"
    assert _calls("torch.jit.is_tracing = lambda: True") == "[(('cuda',), {})]"
    assert _calls("torch.cuda.is_initialized = lambda: False") == "[(('cuda',), {})]"


def test_it_makes_a_file_none_that_traces_or_scripts() -> None:
    text = f"import torch\n\n\n{_TEXT}\n\n\ndef step(x):\n    return _sent(x, 'cuda')\n"
    for data in (text.encode(), text.replace("\n", "\r\n").encode()):
        assert topics_of(data, ()) == frozenset()
    scripts, traces = {SCRIPTED, SCRIPTS_VALUES}, {TRACED}
    for word, topics in (("torch.jit.script(step)", scripts), ("torch.jit.trace(step, x)", traces)):
        assert topics_of(f"{text}{word}\n".encode(), ()) == topics
        assert topics_of(f"{text.replace('return _sent', f'{word}; return _sent')}".encode(), ()) == topics
