"""`torch.tensor([array, array])`: torch reads a list of NumPy arrays number by number, as Python objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Loss, Safety, Severity
from torchperf_lint.idioms.sync.arrays import arrays_in, runs_for_data
from torchperf_lint.knowledge import torch_api
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.arrays import Arrays
    from torchperf_lint.model import Model, Site

_MAKERS = (*torch_api.HOST_DATA_FACTORIES, *torch_api.LEGACY_FACTORIES, "torch.Tensor")
_NOT_TAKEN = frozenset("object object_ longdouble float128 clongdouble complex256 str str_".split())
"""Array dtypes that torch rejects, although it may accept their numbers."""


@rule(
    code="TPL805",
    name="tensor-from-python-data",
    category=Category.OPS,
    summary="a tensor is made of a list of NumPy arrays, number by number",
    message="`{call}` reads a list of NumPy arrays number by number {where}; `np.array` makes one array of them first",
    severity=Severity.WARNING,
    loses=Loss.HOST,
    fix=Safety.UNSAFE,
    assumes="the arrays have numbers in them, all of one dtype, which the tensor's dtype can hold",
    triggers=(("tensor(", "Tensor(", "asarray("), "numpy"),
    cpu_only_too=True,
)
def tensor_from_python_data(model: Model) -> Iterator[Finding]:
    """Calls that convert a list of arrays to a tensor, for every step, sample or batch."""
    for site in model.calls(*_MAKERS):
        call = site.node
        if not call.args or call.args[0].keyword is not None or call.args[0].star:
            continue
        arrays = arrays_in(model, call.args[0].value)
        if arrays is None or model.in_test(site):
            continue
        runs = runs_for_data(model, site)
        if runs is not None:
            fields = {"call": model.brief(call), "where": runs[0]}
            yield Finding(site, runs[1], _one_array_first(model, site, arrays), fields)


def _one_array_first(model: Model, site: Site, arrays: Arrays) -> Fix | None:
    packed = site.node.args[0].value
    numpy = model.name_of("numpy", site)
    if numpy is None or packed.lpar or arrays.dtype in _NOT_TAKEN or isinstance(packed, cst.GeneratorExp):
        return None
    edit = edits.replace(site.tree, packed, f"{numpy}.array({model.text(packed)})")
    return None if edit is None else Fix("make one array of them first", Safety.UNSAFE, (edit,))
