"""`torch.linalg.inv(A)` in every step: the host reads whether it failed; `inv_ex` leaves that to the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms import surroundings
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_RESULT = {
    "torch.linalg.inv": ("inv_ex", "inverse"),
    "torch.inverse": ("inv_ex", "inverse"),
    "torch.linalg.cholesky": ("cholesky_ex", "L"),
    "torch.cholesky": ("cholesky_ex", "L"),
    "torch.linalg.solve": ("solve_ex", "result"),
    "torch.linalg.lu_factor": ("lu_factor_ex", ""),
    "torch.linalg.ldl_factor": ("ldl_factor_ex", ""),
}
"""The unchecked form of each function, in `torch.linalg`, and the field of what it gives that is the result."""

_METHODS = {"inverse": "torch.inverse", "cholesky": "torch.cholesky"}


@rule(
    code="TPL119",
    name="checked-factorization",
    category=Category.SYNC,
    summary="a matrix is inverted or factorized in every step, and the host checks the outcome",
    message="`{call}` waits for the device to know whether it failed, {where}",
    severity=Severity.ERROR,
    default=False,
    fix=Safety.UNSAFE,
    assumes="every matrix can be inverted or factorized, or NaN will do where one cannot",
    torch=">=1.13",
    triggers=(("inv", "cholesky", "solve", "lu_factor", "ldl_factor"),),
)
def checked_factorization(model: Model) -> Iterator[Finding]:
    """Calls of torch's linear algebra over device tensors that raise an error for a singular matrix."""
    for site, ref in _calls(model):
        matrix = shape.receiver(site.node) if ref is None else _matrix(site.node)
        hot_path = model.hot_path(site)
        because = None if matrix is None else model.on_device(matrix)
        if hot_path is None or because is None or surroundings.may_be_caught(model, site):
            continue
        fields = {"call": model.brief(site.node), "where": hot_path.where}
        yield Finding(site, (*because, *hot_path.because), _unchecked(model, site, ref), fields)


def _calls(model: Model) -> Iterator[tuple[Site, str | None]]:
    """The calls in every step, with the function's full name; None for a method of a tensor."""
    for site in model.calls(*_RESULT, hot=True):
        yield site, model.value(site.node.func).ref
    for site in model.method_calls(*_METHODS, hot=True):
        owner = shape.receiver(site.node)
        if owner is not None and model.value(owner).is_tensor:
            yield site, None


def _matrix(call: cst.Call) -> cst.BaseExpression | None:
    """The first argument, which is called `A` in `torch.linalg` and `input` in `torch`."""
    found = shape.argument(call, "A", 0) or shape.argument(call, "input")
    return found if isinstance(found, cst.BaseExpression) else None


def _unchecked(model: Model, site: Site, ref: str | None) -> Fix | NoFix:
    """`torch.linalg.inv_ex(A).inverse` for `torch.linalg.inv(A)`, and for `A.inverse()`."""
    call, tree, torch = site.node, site.tree, model.name_of("torch", site)
    if not isinstance(call, cst.Call) or not isinstance(call.func, (cst.Attribute, cst.Name)):
        return NoFix.FORM
    form, field = _RESULT[ref or _METHODS[shape.method_name(call) or ""]]
    given = [edits.text_of(tree, each) for each in call.args]
    other = any(shape.argument(call, name) is not None for name in ("out", "input"))
    if not field or other or edits.has_comment(tree, call):
        return NoFix.FORM
    if ref is None:
        owner = shape.receiver(call)
        given = [*([] if owner is None else [edits.text_of(tree, owner)]), *given]
    if torch is None:
        return NoFix.NO_ROOM
    listed = ", ".join(each.rstrip().removesuffix(",") for each in given)
    edit = edits.replace(tree, call, f"{torch}.linalg.{form}({listed}).{field}")
    return NoFix.NO_ROOM if edit is None else Fix("leave the check out", Safety.UNSAFE, (edit,))
