"""The random numbers of the device: a stream of its own."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from simulated_cases.harness import assert_same, raises


def check_draws_leave_the_host_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    x = torch.rand(3, device="cuda")
    torch.randn_like(x), torch.randint(5, (2,), device="cuda"), torch.randperm(5, device="cuda")
    x.normal_(), x.exponential_(), x.bernoulli_(), x.uniform_(), torch.multinomial(x, 1), torch.bernoulli(x)
    functional.dropout(x), torch.poisson(x), functional.rrelu(x, training=True), nn.init.xavier_uniform_(x.view(1, 3))
    (
        functional.gumbel_softmax(x),
        torch.normal(0.0, x.abs()),
        torch.normal(x, 1.0),
        functional.feature_alpha_dropout(x.view(1, 1, 3)),
    )
    assert_same(torch.rand(3), expected)


def check_host_draws_leave_the_device_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3, device="cuda")
    torch.manual_seed(0)
    torch.rand(100)
    assert_same(torch.rand(3, device="cuda"), expected)


def check_the_streams_differ() -> None:
    torch.manual_seed(0)
    assert not torch.equal(torch.rand(3), torch.rand(3, device="cuda").cpu())


def check_seeds() -> None:
    torch.cuda.manual_seed(3)
    first = torch.rand(3, device="cuda")
    torch.cuda.manual_seed_all(3)
    assert_same(torch.rand(3, device="cuda"), first)
    assert torch.cuda.initial_seed() == 3
    state = torch.cuda.get_rng_state()
    second = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert_same(torch.rand(3, device="cuda"), second)
    torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    with torch.random.fork_rng():
        torch.rand(3, device="cuda")
        torch.rand(3)
    torch.cuda.seed()
    assert torch.cuda.initial_seed() != 3


def check_forked_streams_return() -> None:
    torch.manual_seed(0)
    state = torch.cuda.get_rng_state()
    with torch.random.fork_rng(devices=[0]):
        torch.rand(3, device="cuda")
    assert_same(torch.cuda.get_rng_state(), state)


def check_generators() -> None:
    generator = torch.Generator(device="cuda")
    assert generator.device == torch.device("cuda", 0)
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().device.type == "cpu"
    assert generator.manual_seed(5) is generator
    assert generator.initial_seed() == 5
    first = torch.rand(3, device="cuda", generator=generator)
    assert_same(torch.rand(3, device="cuda", generator=generator.manual_seed(5)), first)
    state = generator.get_state()
    second = torch.ones(3, device="cuda").uniform_(generator=generator)
    generator.set_state(state)
    assert_same(torch.rand(3, device="cuda", generator=generator), second)
    nn.init.normal_(torch.empty(3, device="cuda"), generator=generator)
    torch.randperm(3, device="cuda", generator=generator)
    torch.multinomial(torch.ones(3, device="cuda"), 1, generator=generator)


def check_generators_of_the_other_side() -> None:
    on_device, on_host = torch.Generator("cuda"), torch.Generator()
    for program in (
        lambda: torch.rand(3, generator=on_device),
        lambda: torch.randperm(3, generator=on_device),
        lambda: torch.ones(3).normal_(generator=on_device),
        lambda: torch.multinomial(torch.ones(3), 1, generator=on_device),
        lambda: torch.utils.data.random_split(range(3), [1, 2], generator=on_device),
    ):
        with raises(RuntimeError, "Expected a 'cpu' device type for generator but found 'cuda'"):
            program()
    for program in (
        lambda: torch.rand(3, device="cuda", generator=on_host),
        lambda: torch.ones(3, device="cuda").normal_(generator=on_host),
    ):
        with raises(RuntimeError, "Expected a 'cuda' device type for generator but found 'cpu'"):
            program()


def check_dropout_repeats() -> None:
    def run():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).cuda()
        x = torch.ones(4, 8, device="cuda", requires_grad=True)
        y = model(x)
        y.sum().backward()
        return y, x.grad, nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5)

    assert_same(run(), run())
