"""What kernels see of the device's memory: overlaps, sizes that change, lazy bits, and whose memory outlives whose."""

from __future__ import annotations

import torch
from torch import nn

from simulated_cases.harness import on_both, raises, recorded
from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.simulated import NotSimulated

OVERLAP = "Please clone() the tensor before performing the operation"


def check_overlapping_memory_is_refused() -> None:
    for device in ("cpu", "cuda"):
        x, square = torch.ones(6, device=device), torch.ones(3, 3, device=device)
        for program in (
            lambda x=x: x[1:].add_(x[:-1]),
            lambda x=x: torch.add(x[1:], 1, out=x[:-1]),
            lambda square=square: square.mul_(square.t()),
            lambda x=x: x[:1].expand(4).add_(1),
        ):
            with raises(RuntimeError, OVERLAP):
                program()


def check_the_same_memory_may_be_operand_and_result() -> None:
    def run(device):
        x = torch.arange(6.0, device=device)
        x[:3].add_(x[3:])
        x.mul_(x)
        torch.add(x, x, out=x)
        return x

    on_both(run)


def check_a_tensor_in_place_keeps_its_shape() -> None:
    for device in ("cpu", "cuda"):
        with raises(RuntimeError, "doesn't match the broadcast shape"):
            torch.ones(5, 1, device=device).logical_and_(torch.ones(5, 5, device=device))
    with raises(NotSimulated, "addbmm_"):
        torch.zeros(1, device="cuda").addbmm_(torch.ones(2, 3, 4, device="cuda"), torch.ones(2, 4, 5, device="cuda"))


def check_resizing_keeps_the_memory() -> None:
    def run(device):
        whole = torch.arange(6.0, device=device)
        part = whole[2:4]
        part.resize_(3).fill_(7)
        transposed = torch.arange(6.0, device=device).view(2, 3).t()
        unchanged = transposed.resize_(3, 2).stride()
        grown = torch.arange(3.0, device=device)[1:].resize_(5)
        return whole, transposed, unchanged, grown[:2]

    on_both(run)


def check_memory_that_is_replaced_stays_for_its_views() -> None:
    x = torch.arange(3.0, device="cuda")
    complex_view = torch.complex(x, x).real
    view = x.expand(2, 3)
    x.resize_(1000)
    x.set_()
    assert view.tolist() == [[0.0, 1.0, 2.0]] * 2
    assert complex_view.tolist() == [0.0, 1.0, 2.0]


def check_outputs_of_another_shape() -> None:
    def run(device):
        small, empty = torch.ones(2, device=device), torch.empty(0, device=device)
        product = torch.ones(5, device=device)
        torch.add(torch.ones(3, 3, device=device), 1, out=small)
        torch.add(torch.ones(3, 3, device=device), 1, out=empty)
        torch.matmul(torch.arange(10.0, device=device), torch.ones(10, 5, device=device), out=product)
        return small, empty, product

    on_both(run)


def check_lazy_bits() -> None:
    def run(device):
        x = torch.arange(4.0).add(1j).to(device)
        y = x * (2 + 1j)
        return torch.vdot(x, y.conj()), torch.vdot(x.conj(), y), x.conj().imag + 1

    on_both(run)


def check_random_numbers_for_an_output_are_the_devices() -> None:
    host_state = torch.get_rng_state()
    torch.cuda.manual_seed(0)
    expected = torch.randn(3, device="cuda")
    torch.cuda.manual_seed(0)
    found = torch.randn(3, out=torch.empty(3, device="cuda"))
    assert torch.equal(found, expected)
    assert torch.equal(torch.get_rng_state(), host_state)


def check_what_cuda_cannot_do() -> None:
    with raises(NotImplementedError, "'CUDA' backend"):
        torch.histogram(torch.ones(3, device="cuda"), 2)
    with raises(RuntimeError, "`driver` other than `gels`"):
        torch.linalg.lstsq(torch.eye(3, device="cuda"), torch.eye(3, device="cuda"), driver="gelsd")
    assert not torch.linalg.lstsq(torch.eye(3, device="cuda"), torch.eye(3, device="cuda")).rank.numel()


def check_data_parallel_on_one_device() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(3, 2)
    inputs = torch.randn(4, 3, requires_grad=True)
    layer(inputs).sum().backward()
    expected, inputs.grad = inputs.grad, None
    with recorded() as events:
        nn.DataParallel(layer.cuda())(inputs).sum().backward()
    assert torch.allclose(inputs.grad, expected)
    assert [(each.kind, each.staged) for each in events[-2:]] == [(Kind.TO_DEVICE, True), (Kind.TO_HOST, False)]
    assert torch.nn.parallel.replicate(layer, [0])[0](inputs.cuda()).is_cuda
    with raises(NotSimulated, "second device"):
        nn.DataParallel(layer, device_ids=[0, 1])
