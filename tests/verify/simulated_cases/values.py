"""The device computes what the host computes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from simulated_cases.harness import assert_same, on_both


def trained(make_model, make_batch, make_optimizer, device, steps=3):
    """The losses and the parameters of a short training on the device."""
    torch.manual_seed(0)
    model = make_model()
    batches = [make_batch() for _ in range(steps)]
    model = model.to(device)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [p.detach() for p in model.parameters()], [p.grad for p in model.parameters()]


def small_model():
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))


def small_batch():
    return torch.randn(5, 4), torch.randn(5, 2)


def check_convolutions_and_batch_norm() -> None:
    def model():
        return nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(4, 2, 2, 2)
        )

    def batch():
        return torch.randn(2, 3, 8, 8), torch.randn(2, 2, 8, 8)

    on_both(lambda device: trained(model, batch, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), device))


def check_channels_last() -> None:
    def run(device):
        torch.manual_seed(0)
        conv = nn.Conv2d(3, 4, 3).to(device, memory_format=torch.channels_last)
        x = torch.randn(2, 3, 8, 8).to(device, memory_format=torch.channels_last)
        result = conv(x)
        assert x.is_contiguous(memory_format=torch.channels_last)
        return result, result.stride()

    on_both(run)


def check_optimizers() -> None:
    for name, options in {
        "SGD": [{"momentum": 0.9}, {"foreach": False}, {"fused": True}],
        "Adam": [{}, {"foreach": False}, {"fused": True}, {"amsgrad": True}],
        "AdamW": [{}, {"fused": True}],
        "RMSprop": [{}],
        "Adagrad": [{}],
        "NAdam": [{}],
        "RAdam": [{}],
        "Adamax": [{}],
        "Rprop": [{}],
        "ASGD": [{}],
        "Adadelta": [{}],
    }.items():
        for keywords in options:

            def optimizer(parameters, name=name, keywords=keywords):
                return getattr(torch.optim, name)(parameters, lr=0.01, **keywords)

            on_both(lambda device, make=optimizer: trained(small_model, small_batch, make, device), within=1e-5)


def check_capturable_optimizer() -> None:
    def run(device):
        keywords = {"capturable": True} if device == "cuda" else {}
        return trained(small_model, small_batch, lambda p: torch.optim.AdamW(p, lr=0.01, **keywords), device)

    on_both(run, within=1e-5)


def check_gradient_clipping() -> None:
    def run(device):
        torch.manual_seed(0)
        model = small_model().to(device)
        model(torch.randn(5, 4).to(device)).square().sum().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        return norm, [p.grad for p in model.parameters()]

    on_both(run)


def check_recurrent_layers() -> None:
    for layer in (nn.LSTM, nn.GRU, nn.RNN):

        def run(device, layer=layer):
            torch.manual_seed(0)
            module = layer(4, 6, num_layers=2, bidirectional=True, batch_first=True).to(device)
            x = torch.randn(3, 5, 4).to(device).requires_grad_()
            output, state = module(x)
            output.square().sum().backward()
            return output.detach(), state, x.grad, [p.grad for p in module.parameters()]

        on_both(run, within=1e-5)


def check_recurrent_cells_without_bias() -> None:
    for cell in (nn.LSTMCell, nn.GRUCell):

        def run(device, cell=cell):
            torch.manual_seed(0)
            module = cell(4, 6, bias=False).to(device)
            state = module(torch.randn(3, 4).to(device))
            sum(each.sum() for each in (state if isinstance(state, tuple) else (state,))).backward()
            return state, [p.grad for p in module.parameters()]

        on_both(run, within=1e-5)


def check_packed_sequences() -> None:
    def run(device):
        torch.manual_seed(0)
        module = nn.LSTM(4, 6, batch_first=True).to(device)
        packed = nn.utils.rnn.pack_padded_sequence(
            torch.randn(3, 5, 4).to(device), torch.tensor([2, 5, 3]), batch_first=True, enforce_sorted=False
        )
        padded, lengths = nn.utils.rnn.pad_packed_sequence(module(packed)[0], batch_first=True)
        return padded, lengths

    on_both(run, within=1e-5)


def check_transformer_and_attention() -> None:
    def run(device):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
        x = torch.randn(2, 5, 8).to(device)
        mask = nn.Transformer.generate_square_subsequent_mask(5).to(device)
        trained = module(x, mask=mask, is_causal=True)
        trained.square().sum().backward()
        q = x.view(2, 5, 2, 4).transpose(1, 2)
        attended = functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        evaluated = module.eval()(x)
        return trained, attended, evaluated, [p.grad for p in module.parameters()]

    on_both(run, within=1e-4)


def check_losses() -> None:
    def run(device):
        torch.manual_seed(0)
        logits = torch.randn(6, 4).to(device).requires_grad_()
        labels = torch.tensor([0, 1, 2, 3, 0, 1], device=device)
        losses = [
            functional.cross_entropy(logits, labels, label_smoothing=0.1),
            functional.nll_loss(logits.log_softmax(1), labels),
            functional.binary_cross_entropy_with_logits(logits, torch.ones_like(logits)),
            functional.kl_div(logits.log_softmax(1), logits.softmax(1).detach(), reduction="batchmean"),
            functional.smooth_l1_loss(logits, torch.zeros_like(logits)),
            functional.ctc_loss(
                logits.log_softmax(1)[:, None], torch.tensor([[1, 2]], device=device), (6,), (2,), blank=0
            ),
        ]
        sum(losses).backward()
        return losses, logits.grad

    on_both(run, within=1e-5)


def check_embeddings() -> None:
    def run(device):
        torch.manual_seed(0)
        embedding, bag = nn.Embedding(7, 3).to(device), nn.EmbeddingBag(7, 3).to(device)
        ids = torch.tensor([1, 2, 2, 5], device=device)
        result = embedding(ids).sum() + bag(ids, torch.tensor([0, 2], device=device)).sum()
        result.backward()
        return result, embedding.weight.grad, bag.weight.grad

    on_both(run)


def check_checkpointing() -> None:
    def run(device, reentrant):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
        x = torch.randn(5, 4).to(device).requires_grad_()
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        return x.grad, [p.grad for p in model.parameters()]

    on_both(lambda device: run(device, True))
    on_both(lambda device: run(device, False))


def check_checkpoint_repeats_dropout() -> None:
    torch.manual_seed(0)
    x = torch.ones(64, device="cuda", requires_grad=True)
    y = checkpoint(lambda t: functional.dropout(t, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert_same(y.detach(), x.grad)


def check_functional_transforms() -> None:
    def run(device):
        torch.manual_seed(0)
        weight, x = torch.randn(3, 4).to(device), torch.randn(5, 4).to(device)
        gradient = torch.func.grad(lambda w: (x @ w.t()).tanh().sum())(weight)
        mapped = torch.vmap(lambda row: weight @ row)(x)
        jacobian = torch.func.jacrev(lambda w: (w @ x[0]).sin())(weight)
        forward = torch.func.jvp(lambda w: (w @ x[0]).sin(), (weight,), (torch.ones_like(weight),))
        return gradient, mapped, jacobian, forward

    on_both(run)


def check_custom_functions_and_hooks() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * 2 + x * 0

    def run(device):
        torch.manual_seed(0)
        seen = []
        model = nn.Linear(4, 2).to(device)
        model.register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
        model.register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0]))
        model.weight.register_hook(lambda gradient: gradient * 3)
        model.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        Double.apply(model(torch.randn(5, 4).to(device))).sum().backward()
        return seen, model.weight.grad

    on_both(run)


def check_double_backward() -> None:
    def run(device):
        x = torch.arange(1.0, 5.0).to(device).requires_grad_()
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        first.sum().backward()
        return x.grad

    on_both(run)


def check_in_place_and_out() -> None:
    def run(device):
        x = torch.arange(6.0).to(device).reshape(2, 3)
        row = x[1]
        row += 10
        x.t()[0] *= 2
        out = torch.empty(0, device=device)
        torch.add(x, 1, out=out)
        values, indices = torch.empty(2, device=device), torch.empty(2, dtype=torch.long, device=device)
        torch.max(x, 1, out=(values, indices))
        flat = x.view(-1)
        flat.resize_(4)
        return x, row, out, values, indices, flat, x.storage_offset(), row.storage_offset()

    on_both(run)


def check_views_share_their_storage() -> None:
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    row = x[1]
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert (row.storage_offset(), row._base is not None) == (3, True)
    assert_same(x.as_strided((2, 2), (1, 1), 1), torch.tensor([[1.0, 2.0], [2.0, 3.0]]))
    y = torch.empty(0, device="cuda").set_(x)
    y += 1
    assert_same(x[0], torch.tensor([1.0, 2.0, 3.0]))
    assert_same(torch.view_as_complex(x.reshape(3, 2)).real, torch.tensor([1.0, 3.0, 5.0]))


def check_complex_and_integer_types() -> None:
    def run(device):
        x = torch.tensor([1 + 2j, 3 - 1j]).to(device)
        n = torch.arange(-3, 3).to(device)
        return x.conj() * x, x.conj().clone(), x.imag, n // 2, n % 2, n.bool(), n.to(torch.uint8) << 1, n.half().sum()

    on_both(run)


def check_linear_algebra() -> None:
    def run(device):
        torch.manual_seed(0)
        a = torch.randn(3, 3).to(device)
        symmetric = a @ a.t() + torch.eye(3, device=device)
        return (
            torch.linalg.cholesky(symmetric),
            torch.linalg.solve(symmetric, a),
            torch.linalg.eigvalsh(symmetric),
            torch.linalg.svdvals(a),
            torch.linalg.det(a),
            torch.einsum("ij,jk->ik", a, a),
        )

    on_both(run)


def check_moving_a_module() -> None:
    model = nn.Linear(3, 2)
    tied = nn.Sequential(model, nn.Linear(3, 2))
    tied[1].weight = model.weight
    weight = model.weight
    optimizer = torch.optim.SGD(tied.parameters(), 0.1)
    view = model.bias.detach()[:1]
    assert tied.cuda() is tied
    assert model.weight is weight
    assert tied[1].weight is weight
    assert type(weight) is nn.Parameter
    assert weight.is_leaf
    assert weight.requires_grad
    assert str(weight.device) == "cuda:0"
    assert optimizer.param_groups[0]["params"][0] is weight
    assert view.device.type == "cpu"
    model(torch.ones(1, 3, device="cuda")).sum().backward()
    assert str(weight.grad.device) == "cuda:0"
    tied.cpu()
    assert model.weight is weight
    assert weight.device.type == weight.grad.device.type == "cpu"


def check_assigning_data() -> None:
    parameter = nn.Parameter(torch.ones(3))
    parameter.data = parameter.data.cuda()
    assert parameter.is_cuda
    assert parameter.requires_grad
    other = torch.zeros(3, device="cuda")
    parameter.data = other
    parameter.data.add_(1)
    assert_same(other, torch.ones(3))
    parameter.data = parameter.data.half()
    assert parameter.dtype == torch.float16


def check_copying_deeply() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).cuda()
    tied = nn.ModuleList([model, model[0]])
    copied = copy.deepcopy(tied)
    assert copied[0][0] is copied[1]
    assert copied[1].weight.is_cuda
    assert type(copied[1].weight) is nn.Parameter
    with torch.no_grad():
        copied[1].weight.zero_()
    assert model[0].weight.abs().sum() > 0
    x = torch.arange(4.0, device="cuda")
    whole, part = copy.deepcopy((x, x[2:]))
    part.zero_()
    assert_same(whole, torch.tensor([0.0, 1.0, 0.0, 0.0]))


def check_state_dicts() -> None:
    def run(device):
        torch.manual_seed(0)
        model, other = small_model().to(device), small_model().to(device)
        optimizer = torch.optim.Adam(model.parameters(), 0.1)
        model(torch.randn(5, 4).to(device)).sum().backward()
        optimizer.step()
        other.load_state_dict(model.state_dict())
        again = torch.optim.Adam(other.parameters(), 0.1)
        again.load_state_dict(optimizer.state_dict())
        return other.state_dict(), again.state_dict()["state"]

    on_both(run)


def check_averaged_models_and_schedules() -> None:
    def run(device):
        torch.manual_seed(0)
        model = small_model().to(device)
        averaged = torch.optim.swa_utils.AveragedModel(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5)
        for _ in range(3):
            model(torch.randn(5, 4).to(device)).sum().backward()
            optimizer.step()
            schedule.step()
            averaged.update_parameters(model)
        return list(averaged.parameters()), schedule.get_last_lr()

    on_both(run, within=1e-6)


def check_division_by_a_number_multiplies_by_its_reciprocal() -> None:
    numbers = torch.arange(1, 200, dtype=torch.float64)
    device = numbers.cuda()
    products = numbers * (1.0 / 49)
    assert not torch.equal(products, numbers / 49), "the numbers show no difference"
    into = torch.empty_like(device)
    for quotient in (
        device / 49,
        device / torch.tensor(49),
        device.clone().div_(49.0),
        device.div(torch.tensor(49.0, dtype=torch.float64)),
        torch.div(device, 49, out=into),
        torch.true_divide(device, 49),
        torch.div(device, 49, rounding_mode=None),
    ):
        assert torch.equal(quotient.cpu(), products)
    assert torch.equal((device / torch.tensor(49.0, device="cuda", dtype=torch.float64)).cpu(), numbers / 49)
    assert torch.equal((49 / device).cpu(), 49 / numbers)


def check_reciprocals_have_the_precision_of_the_kernel() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        numbers = torch.arange(1, 200).to(dtype)
        reciprocal = torch.tensor(49.0).reciprocal()
        expected = (numbers.float() * reciprocal).to(torch.float32 if dtype is torch.int64 else dtype)
        assert_same((numbers.cuda() / 49).cpu(), expected)
    assert (torch.ones(1, device="cuda") / 0).isinf().item()
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.arange(3, device="cuda").div_(2)


def check_divisors_keep_their_precision_and_their_dtype() -> None:
    doubles = torch.ones(3, dtype=torch.float64, device="cuda")
    assert (doubles / 0.1).tolist() == [10.0] * 3
    assert (doubles / 1e300).tolist() == [1e-300] * 3
    for dividend, divisor in (
        (torch.arange(3), torch.tensor(3.0, dtype=torch.float64)),
        (torch.ones(2).half().sum(), torch.tensor(3.0)),
        (torch.arange(3), torch.tensor(3.0, dtype=torch.float16)),
        (torch.arange(3), 3),
        (torch.ones(2, dtype=torch.bfloat16), torch.tensor(3.0, dtype=torch.float64)),
        (torch.ones(2, dtype=torch.complex64), 2),
        (torch.ones(2), 2j),
    ):
        assert (dividend.cuda() / divisor).dtype == (dividend / divisor).dtype, (dividend, divisor)
    assert torch.div(torch.arange(5, device="cuda"), 2, rounding_mode="floor").tolist() == [0, 0, 1, 1, 2]
