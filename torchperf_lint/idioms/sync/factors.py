"""The factors of a number that is added to a sum: `loss.item() * n / k`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model


class Scale(NamedTuple):
    """The factors of the added value.

    `whole`: an integer times these factors is an integer; None if unknown. `exact`: the device computes the
    same result as Python.
    """

    whole: bool | None
    exact: bool


def scale_of(model: Model, read: HostRead) -> Scale | None:
    """The factors of `loss.item() * n / k`, or None if the added value is not such a product."""
    statement = read.parent
    assert isinstance(statement, cst.AugAssign)
    whole: bool | None = True
    exact = True
    node: cst.CSTNode = read.site.node
    while node is not statement.value:
        product = model.parent(node)
        if not isinstance(product, cst.BinaryOperation):
            return None
        divides = isinstance(product.operator, cst.Divide)
        if not isinstance(product.operator, (cst.Multiply, cst.Divide)) or (divides and product.right is node):
            return None
        factor = product.right if product.left is node else product.left
        value = model.value(factor)
        if value.kind is not Kind.NUMBER:
            if value.kind is not Kind.UNKNOWN or shape.dotted(factor) is None:
                return None
            exact = False
        # A parameter annotated as a number may be a NumPy scalar, which rounds differently.
        exact = exact and (value.dtype is not None or value.constant is not None)
        if divides or value.dtype == "float":
            whole = False
        elif value.dtype != "int":
            whole = whole and None
        # CUDA divides by a number by multiplying with its reciprocal, which is exact for powers of two only.
        exact = exact and not (divides and not _is_power_of_two(value.constant))
        node = product
    return Scale(whole, exact)


def _is_power_of_two(number: object) -> bool:
    return isinstance(number, int) and number > 0 and number & (number - 1) == 0
