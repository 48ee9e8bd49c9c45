"""What must fail on the device does fail: as CUDA does, or with NotSimulated."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch.nn import functional

from simulated_cases.harness import raises, recorded, recorder
from torchperf_lint.verify.simulated import NotSimulated, install

MIXED = "Expected all tensors to be on the same device"


def check_host_operands() -> None:
    x, y = torch.ones(3, device="cuda"), torch.ones(3)
    for program in (
        lambda: x + y,
        lambda: y + x,
        lambda: y.add_(x),
        lambda: x.mul_(y),
        lambda: torch.where(x > 0, x, y),
        lambda: torch.cat([x, y]),
        lambda: torch.stack([x.sum(), torch.tensor(1.0)]),
        lambda: nn.Linear(3, 2).cuda()(y),
        lambda: nn.Linear(3, 2)(x),
        lambda: functional.embedding(torch.tensor([0]), torch.ones(2, 2, device="cuda")),
        lambda: functional.cross_entropy(torch.ones(1, 3, device="cuda"), torch.tensor([0])),
        lambda: functional.conv1d(torch.ones(1, 1, 3, device="cuda"), torch.ones(1, 1, 1)),
        lambda: x.gather(0, torch.tensor([0])),
        lambda: x.scatter_(0, torch.tensor([0], device="cuda"), y),
        lambda: torch.add(x, x, out=y),
        lambda: torch.add(x, x, out=torch.tensor(0.0)),
        lambda: torch.tensor(1.0).add_(x.sum()),
        lambda: x.masked_fill(y > 0, 0.0),
        lambda: torch.dot(x, y),
        lambda: torch.outer(x, y),
        lambda: torch.equal(x, y),
        lambda: torch.nn.utils.parameters_to_vector([y, x]),
    ):
        with raises((RuntimeError, TypeError), ""):
            program()
    with raises(RuntimeError, f"{MIXED}, but found at least two devices, cuda:0 and cpu!"):
        x + y
    with raises(RuntimeError, f"{MIXED}, but found at least two devices, cpu and cuda:0!"):
        y + x


def check_host_operands_that_are_allowed() -> None:
    x = torch.ones(3, device="cuda")
    zero_dim = torch.tensor(2.0)
    for program in (
        lambda: x + zero_dim,
        lambda: zero_dim * x,
        lambda: x.add_(zero_dim),
        lambda: x.sum().add_(zero_dim),
        lambda: torch.where(x > 0, x, zero_dim),
        lambda: torch.maximum(x, zero_dim),
        lambda: x.masked_fill(x > 0, zero_dim),
        lambda: x.clamp(max=zero_dim),
        lambda: x.lerp(x, zero_dim),
        lambda: x.copy_(torch.zeros(3)),
        lambda: torch.zeros(3).copy_(x),
        lambda: x[torch.tensor([True, False, True])],
        lambda: torch._foreach_mul_([x], zero_dim),
    ):
        program()


def check_index_devices() -> None:
    with raises(RuntimeError, "indices should be either on cpu or on the same device as the indexed tensor (cpu)"):
        torch.ones(3)[torch.tensor([0], device="cuda")]
    with raises(RuntimeError, "indices should be either"):
        torch.ones(3)[torch.tensor([0], device="cuda")] = 1.0


def check_gradients_and_parameters() -> None:
    parameter = nn.Parameter(torch.ones(3, device="cuda"))
    with raises(RuntimeError, "attempting to assign a gradient with device type 'cpu'"):
        parameter.grad = torch.ones(3)
    with raises(TypeError, "can't convert cuda:0 device type tensor to numpy"):
        parameter.detach().numpy()
    with raises(RuntimeError, "only dense CPU tensors can be pinned"):
        parameter.detach().pin_memory()


def check_what_is_not_simulated() -> None:
    x = torch.ones(3, 3, device="cuda")
    for program in (
        lambda: x.to("cuda:1"),
        lambda: torch.ones(3, device="cuda:1"),
        lambda: x.cuda(1),
        lambda: torch.cuda.set_device(1),
        lambda: torch.cuda.device(2).__enter__(),
        torch.cuda.CUDAGraph,
        lambda: torch.cuda.graph(None),
        lambda: torch.cuda.make_graphed_callables(nn.Linear(3, 3).cuda(), (x,)),
        torch.cuda.MemPool,
        torch.cuda.utilization,
        torch.cuda.memory_snapshot,
        torch.cuda.memory._record_memory_history,
        torch.cuda.cudart,
        lambda: torch.cuda.nccl.all_reduce([x]),
        lambda: torch.cuda.comm.broadcast(x, [0]),
        torch.cuda.jiterator._create_jit_fn("", x=1),
        torch.Stream,
        torch.Event,
        lambda: torch.cuda.Event(interprocess=True),
        lambda: torch.cuda.ExternalStream(0),
        x.to_sparse,
        lambda: torch.eye(3).to_sparse().cuda(),
        lambda: torch.sparse_coo_tensor([[0], [0]], [1.0], device="cuda"),
        lambda: torch.quantize_per_tensor(x, 1.0, 0, torch.qint8),
        lambda: torch.nested.nested_tensor([x, x]) + 1,
        lambda: torch.multiprocessing.spawn(print),
        lambda: torch.set_default_tensor_type("torch.cuda.FloatTensor"),
        lambda: torch.from_dlpack(x),
        lambda: torch.utils.dlpack.to_dlpack(x),
        lambda: x.__cuda_array_interface__,
        lambda: torch.Generator("cuda").clone_state(),
        getattr(torch.accelerator, "Graph", torch.Event),  # new in torch 2.12
        lambda: torch.cuda.Stream().cuda_stream,
    ):
        with raises(NotSimulated, "not simulated: "):
            program()


def check_hooks_on_a_moving_parameter() -> None:
    module = nn.Linear(2, 2)
    module.weight.register_hook(lambda gradient: gradient)
    with raises(NotSimulated, "hooks"):
        module.cuda()


def check_sending_to_another_process() -> None:
    with raises(NotSimulated, "another process"):
        torch.multiprocessing.reductions.reduce_tensor(torch.ones(2, device="cuda"))


def check_other_versions_of_torch() -> None:
    install(recorder)
    version = torch.__version__
    for other in ("2.10.1", "2.16.0+cpu", "3.0.0"):
        torch.__version__ = other
        try:
            with raises(NotSimulated, f"a device for torch {other}; install torch 2.11 to 2.15"):
                install(recorder)
        finally:
            torch.__version__ = version


def check_real_devices() -> None:
    install(recorder)
    for count, refused in ((1, True), (0, False)):
        with (
            mock.patch.object(torch.version, "cuda", "13.0"),
            mock.patch.object(torch._C, "_cuda_getDeviceCount", lambda count=count: count, create=True),
            raises(NotSimulated, "hide these with CUDA_VISIBLE_DEVICES=-1") if refused else contextlib.nullcontext(),
        ):
            install(recorder)


def check_what_is_compiled_runs_eagerly_and_says_so_once() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        decorated = torch.compile(fullgraph=True)(lambda x: x + 1 if x.sum() > 0 else x)
        model = nn.Linear(2, 2).cuda()
        compiled = torch.compile(model, mode="reduce-overhead")
        assert not any("does not compile" in str(each.message) for each in said), "it is only decorated"
        x = torch.ones(3, 2, device="cuda")
        with recorded() as events:
            found = decorated(compiled(x).exp())
        assert torch.equal(found, model(x).exp() + 1)
        assert [each.operator for each in events if each.waits] == ["item"]
        with torch.compiler.set_stance("default"):
            assert torch.equal(compiled(x), model(x))
        model.compile()
        model(x)
    assert sum("does not compile" in str(each.message) for each in said) == 1
    assert compiled._orig_mod is model


def check_what_is_scripted_runs_as_python() -> None:
    @torch.jit.script
    def moved(x: torch.Tensor) -> torch.Tensor:
        return x.to("cuda") + torch.zeros([2], device="cuda") if x.is_cuda else x - 1

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    x = torch.ones(2, device="cuda")
    assert torch.equal(moved(x), x)
    scripted = torch.jit.script(Net()).cuda()
    traced = torch.jit.trace(Net().cuda(), x)
    for module in (scripted, traced, torch.jit.freeze(scripted.eval())):
        module(x).sum().backward()
        assert next(module.parameters()).grad.is_cuda
    with raises(NotSimulated, "saving a module as TorchScript"):
        scripted.save("net.pt")
    with raises(NotSimulated, "saving a module as TorchScript"):
        torch.jit.save(nn.Linear(2, 2), "net.pt")


def check_torchs_own_scripts_find_what_their_module_names() -> None:
    sys.modules.pop("torch.distributed.optim.functional_adadelta", None)
    from torch.distributed.optim import functional_adadelta

    assert "_scripted_functional_optimizer_deprecation_warning" in vars(functional_adadelta)
    assert torch.cuda.nccl.version() >= (2, 10)


def check_a_module_loaded_as_torchscript_stays_on_the_host() -> None:
    module = torch.jit.script.__wrapped__(nn.Linear(2, 2))
    assert module.double()(torch.ones(2, dtype=torch.float64)).dtype == torch.float64
    with raises(NotSimulated, "a TorchScript module"):
        module.cuda()


def check_packages_whose_operators_do_not_load_are_imported_without_them() -> None:
    files = {
        "torchvision/__init__.py": "import torch\nfrom . import extension, boxes\n"
        "torch.library.register_fake('torchvision::nms')(lambda *_: None)\n",
        "torchvision/extension.py": "def _has_ops():\n    return False\n"
        "def _assert_has_ops():\n    raise RuntimeError('no operators')\n",
        "torchvision/boxes.py": "from .extension import _assert_has_ops\ndef nms():\n    _assert_has_ops()\n",
        "torchaudio/__init__.py": "from ._extension import HAS_OPERATORS\n",
        "torchaudio/_extension/__init__.py": "from .utils import _load_lib\nHAS_OPERATORS = _load_lib('any')\n",
        "torchaudio/_extension/utils.py": "import torch\ndef _load_lib(name):\n"
        "    torch.ops.load_library(name)\n    return True\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            file = Path(folder, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        sys.path.insert(0, folder)
        try:
            import torchaudio
            import torchvision
        finally:
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.partition(".")[0] in ("torchaudio", "torchvision")]:
                del sys.modules[name]
    assert not torchaudio.HAS_OPERATORS
    with raises(NotSimulated, "the compiled operators of this torchvision"):
        torchvision.boxes.nms()
