"""Results are kept bit for bit, and the comparison sees every difference that a user could."""

from __future__ import annotations

import json
import math

import numpy
import pytest
import torch

from torchperf_lint.verify.results import NotComparable, differences, encode

TENSORS = [
    torch.tensor([1.5, -0.0, math.inf, math.nan]),
    torch.tensor([[1, 2], [3, 4]], dtype=torch.int16),
    torch.tensor(0.1, dtype=torch.bfloat16),
    torch.tensor([True, False]),
    torch.empty(0, 3),
    torch.arange(6.0).reshape(2, 3).t(),
    torch.tensor(1 + 2j),
    torch.nn.Parameter(torch.ones(2)),
]


WITH_GRAPH = torch.ones(1, requires_grad=True) * 1
with torch.inference_mode():
    FOR_INFERENCE = torch.ones(1)


def _record(value):
    return json.loads(json.dumps(encode(value)))


@pytest.mark.parametrize(
    "value",
    [
        *TENSORS,
        1,
        1.0,
        True,
        None,
        "text",
        2j,
        [1, (2.0, "a")],
        {"a": [torch.ones(1)]},
        numpy.float32(2),
        torch.float16,
    ],
    ids=lambda value: f"{type(value).__name__} {value}"[:40],
)
def test_a_value_equals_its_own_record(value):
    assert differences(_record(value), _record(value)) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (1, 1.0, "type int became float"),
        (1, True, "type int became bool"),
        (0.1 + 0.2, 0.3, "0.30000000000000004 became 0.3"),
        (0.0, -0.0, "0.0 became -0.0"),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), "dtype torch.float32 became torch.float64"),
        (torch.ones(2), torch.ones(2, 1), "shape [2] became [2, 1]"),
        (torch.ones(2), torch.nn.Parameter(torch.ones(2)), "type Tensor became Parameter"),
        (torch.ones(1), torch.ones(1, requires_grad=True), "requires_grad False became True"),
        (torch.ones(2, 2), torch.ones(2, 2).t(), "strides [2, 1] became [1, 2]"),
        (torch.ones(1, 2), torch.ones(1, 4)[:, ::2], "strides [None, 1] became [None, 2]"),
        (torch.zeros(1, 2), torch.zeros(1, 1).expand(1, 2), "strides [None, 1] became [None, 0]"),
        (WITH_GRAPH, WITH_GRAPH.detach().requires_grad_(), "has a graph True became False"),
        (torch.ones(1), FOR_INFERENCE, "is for inference only False became True"),
        (torch.tensor(1.0), 1.0, "type Tensor became float"),
        (numpy.float64(1), 1.0, "type numpy float64 became float"),
        (numpy.zeros(2), numpy.zeros(2, "float32"), "dtype <f8 became <f4"),
        (numpy.zeros((2, 2)), numpy.zeros((2, 2)).T, "strides [2, 1] became [1, 2]"),
        (numpy.ones(2), numpy.ones(2)[::-1], "strides [1] became [-1]"),
        (numpy.float64(1), numpy.array(1.0), "type numpy float64 became numpy ndarray"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0000002]), "became"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "[1, 2] became [1, 3]"),
        (torch.tensor([0.0]), torch.tensor([-0.0]), "became"),
        (torch.tensor([math.nan]), torch.tensor([0.0]), "became"),
        ([1, 2], (1, 2), "type list became tuple"),
        ([1, 2], [1], "2 items became 1"),
        ({"a": 1}, {"b": 1}, "the keys 'a' became 'b'"),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "results['a'][1]['b']: 2 became 3"),
        ("yes", "no", "'yes' became 'no'"),
    ],
)
def test_a_difference_is_named(before, after, said):
    found = differences(_record(before), _record(after))
    assert len(found) == 1
    assert said in found[0]


def test_nan_equals_nan_whatever_its_bits():
    odd = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert differences(_record(odd), _record(torch.tensor([math.nan]))) == []


def test_a_tolerance_is_relative_and_holds_for_numbers_only():
    assert differences(_record(100.0), _record(100.0001), 1e-5) == []
    assert differences(_record(100.0), _record(100.01), 1e-5) != []
    assert differences(_record(torch.tensor([0.0])), _record(torch.tensor([1e-9])), 1e-5) != []
    assert differences(_record(3), _record(4), 0.5) != []
    assert differences(_record(math.nan), _record(1.0), 0.5) != []


def test_strides_that_place_nothing_are_not_compared():
    alike = [
        (torch.ones(1, 3), torch.ones(3, 1).t()),
        (torch.ones(0, 3), torch.ones(3, 0).t()),
        (numpy.ones((1, 3)), numpy.ones((3, 1)).T),
    ]
    for before, after in alike:
        assert differences(_record(before), _record(after)) == []


def test_without_values_only_what_they_are_is_compared():
    before, after = _record([1, torch.ones(2)]), _record([2, torch.zeros(2)])
    assert differences(before, after, values=False) == []
    assert differences(before, _record([2, torch.zeros(2).double()]), values=False) != []


def test_without_types_a_number_is_its_value():
    before = _record([1.5, 3, True, torch.tensor(2, dtype=torch.int16), [0.1]])
    alike = _record([torch.tensor(1.5, dtype=torch.bfloat16), 3.0, 1.0, 2.0, [torch.tensor(0.1, dtype=torch.float64)]])
    assert differences(before, alike, types=False) == []
    assert len(differences(before, alike)) == 5
    other = _record([1.5, 3, False, 2, [torch.tensor(0.1)]])
    assert differences(before, other, types=False) == [
        "results[2]: True became False",
        "results[4][0]: 0.1 became 0.10000000149011612",
    ]
    assert differences(_record(1.0), _record(torch.ones(1)), types=False) == ["results: type float became Tensor"]
    assert differences(_record("1"), _record(1), types=False) == ["results: type str became int"]


def test_what_has_no_record_is_refused_with_its_place():
    with pytest.raises(NotComparable, match=r"results\['model'\]\[0\] is a torch.nn.modules.linear.Linear"):
        encode({"model": [torch.nn.Linear(1, 1)]})
