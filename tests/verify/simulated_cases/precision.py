"""Automatic mixed precision."""

from __future__ import annotations

from collections import Counter

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from simulated_cases.harness import assert_same, raises, recorded, recorder
from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.simulated import autocast


def check_the_lists_of_operators() -> None:
    lists = autocast.operators_by_policy()
    assert {"linear", "conv2d", "matmul", "scaled_dot_product_attention"} <= {*lists[autocast.Policy.LOWER]}
    assert {"exp", "pow.Tensor_Scalar", "layer_norm", "mse_loss"} <= {*lists[autocast.Policy.FLOAT32]}
    assert {"softmax.int", "sum", "sum.dim_IntList"} <= {*lists[autocast.Policy.FLOAT32_RESULT]}
    assert {"norm.Scalar", "norm.ScalarOpt_dim"} <= {*lists[autocast.Policy.FLOAT32_NORM]}
    assert {"addcmul", "index_put", "dot"} <= {*lists[autocast.Policy.PROMOTE]}


def check_dtypes() -> None:
    x = torch.ones(2, 2, device="cuda")
    half = x.half()
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled("cuda")
        assert torch.is_autocast_enabled()
        assert torch.get_autocast_dtype("cuda") == torch.float16
        assert (x @ x).dtype == torch.float16
        assert nn.Linear(2, 2).cuda()(x).dtype == torch.float16
        assert functional.scaled_dot_product_attention(x[None], x[None], x[None]).dtype == torch.float16
        assert half.exp().dtype == torch.float32
        assert half.softmax(0).dtype == torch.float32
        assert half.sum().dtype == torch.float32
        assert half.norm().dtype == torch.float32
        assert functional.layer_norm(half, (2,)).dtype == torch.float32
        assert functional.mse_loss(half, half).dtype == torch.float32
        assert (half + x).dtype == torch.float32
        assert torch.addcmul(half, half, x).dtype == torch.float32
        assert torch.cat([half, x]).dtype == torch.float32
        assert half.relu().dtype == torch.float16
        assert x.double().matmul(x.double()).dtype == torch.float64
        assert (x.cpu() @ x.cpu()).dtype == torch.float32
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype == torch.float32
        with raises(RuntimeError, "unsafe to autocast"):
            functional.binary_cross_entropy(x, x)
    assert not torch.is_autocast_enabled("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16), torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        assert (x.cpu() @ x.cpu()).dtype == torch.bfloat16
    with torch.autocast(device_type="cuda", dtype=torch.float16), torch.no_grad():
        assert nn.LSTM(2, 2).cuda()(x)[0].shape == (2, 2)


def check_old_names() -> None:
    x = torch.ones(2, 2, device="cuda")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.cuda.amp.autocast():
            assert (x @ x).dtype == torch.float16
        assert torch.cuda.amp.GradScaler().is_enabled()


def check_weights_are_cast_once() -> None:
    model = nn.Linear(4, 4, bias=False).cuda()
    x = torch.ones(2, 4, device="cuda", dtype=torch.float16)
    recorder.operators.clear()
    recorder.count_operators = True
    with torch.autocast("cuda"):
        first = model(x)
        second = model(x)
    recorder.count_operators = False
    counted = Counter(name for (_, _, name), count in recorder.operators.items() for _ in range(count))
    assert (counted["_to_copy"], counted["mm"]) == (1, 2), counted
    (first + second).sum().backward()
    assert model.weight.grad.dtype == torch.float32
    assert_same(model.weight.grad, torch.full((4, 4), 4.0))
    with torch.no_grad():
        model.weight.zero_()
    with torch.autocast("cuda"):
        assert not model(x).any()


def check_training_with_a_scaler() -> None:
    for fused, reads in ((False, 1), (True, 0)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), 0.1, fused=fused)
        scaler = torch.amp.GradScaler("cuda")
        x, y = torch.randn(16, 4).cuda(), torch.randn(16, 1).cuda()
        losses = []
        for step in range(5):
            with recorded() as events:
                optimizer.zero_grad()
                with torch.autocast("cuda"):
                    loss = functional.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                if step % 2:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            if step:
                assert [event.kind for event in events] == [Kind.READ] * reads
            losses.append(loss.item())
        assert losses[-1] < losses[0]
        assert scaler.get_scale() > 1.0


def check_the_scaler_skips_infinite_gradients() -> None:
    parameter = nn.Parameter(torch.ones(2, device="cuda"))
    optimizer = torch.optim.SGD([parameter], 0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale((parameter * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert_same(parameter, torch.ones(2))
    assert scaler.get_scale() == 2.0


def check_custom_functions_and_checkpoints() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            a, b = ctx.saved_tensors
            return gradient @ b.t(), a.t() @ gradient

    x = torch.ones(2, 2, device="cuda", requires_grad=True)
    with torch.autocast("cuda"):
        y = checkpoint(lambda t: Product.apply(t, t), x, use_reentrant=False)
    assert y.dtype == torch.float16
    y.sum().backward()
    assert x.grad.dtype == torch.float32
