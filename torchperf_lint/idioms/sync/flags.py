"""`if not self.initialized.item():` for a buffer that is set once, or never: the device need not be asked each time."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, Safety
from torchperf_lint.idioms.scripting import judged
from torchperf_lint.idioms.writes import written_in
from torchperf_lint.idioms.written_helpers import IS_SET, STILL_TRUE, defined
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax import cst, edits, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.written_helpers import Helper
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import ClassInfo, FunctionInfo

_TITLE = "ask the flag again only after something has written to it"
_ASSUMES = "nothing writes to the flag unseen by autograd, as through `.data` or by a CUDA graph"


def asked_when_written(model: Model, site: Site) -> Fix | None:
    """`_still_true(self.initialized)`, and the function `_still_true` above the file's definitions.

    For one that is given to the module, and that no method writes to, it is `_is_set`, which remembers false ones, too.
    """
    flag, function, torch = _flag(site.node), model.function_of(site), model.name_of("torch", site)
    if flag is None or function.cls is None or torch is None or not site.tree.lossless:
        return None
    if shape.dotted(flag.value) != function.self_name or not model.value(flag).is_tensor:
        return None
    helper = _helper_for(model, function.cls, flag.attr.value)
    if helper is None:
        return None
    start, end = site.tree.span(site.node)
    if b"#" in site.tree.source.utf8[start:end] or site.node.lpar:
        return None
    changed = edits.together(
        defined(model, helper, torch, model.statement_of(site.node)),
        edits.replace(site.tree, site.node, f"{helper.name}({edits.text_of(site.tree, flag)})"),
    )
    fix = None if changed is None else judged(model, function, Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES))
    return fix if isinstance(fix, Fix) else None


def _flag(node: cst.CSTNode) -> cst.Attribute | None:
    """`self.x` of `self.x`, of `self.x.item()` and of `bool(self.x)`."""
    if isinstance(node, cst.Call) and shape.method_name(node) == "item" and not node.args:
        node = shape.receiver(node) or node
    return node if isinstance(node, cst.Attribute) else None


def _helper_for(model: Model, cls: ClassInfo, name: str) -> Helper | None:
    """What asks a buffer of a module that is written to only where it was asked, and nowhere through `.data`."""
    lineage = model.lineage(cls)
    methods = [method for each in lineage for method in each.methods.values()]
    registered = [made for method in methods for made in _registered(method, name)]
    if not model.makes_modules(cls) or not any(map(_is_one, registered)):
        return None
    if any(_is_data_of(node, name) for each in model.with_neighbours for node in each.code.nodes):
        return None
    written = {each: set(_writes(each, name)) for each in methods}
    if any(isinstance(argument, ast.Name) for made in registered for argument in made.args):
        return None if any(written.values()) else IS_SET
    is_set_once = all(not (places - _guarded(method, name)) for method, places in written.items())
    return STILL_TRUE if is_set_once else None


def _registered(method: FunctionInfo, name: str) -> Iterator[ast.Call]:
    """The calls that make what a method registers as the buffer."""
    for record in method.calls_made:
        call = record.call
        if isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer" and len(call.args) > 1:
            key, made = call.args[:2]
            if isinstance(key, ast.Constant) and key.value == name and isinstance(made, ast.Call):
                yield made


def _is_one(made: ast.Call) -> bool:
    """Whether it is made of one number or truth value, perhaps of an argument: `torch.tensor(massive)`."""
    given = made.args[0] if made.args else None
    return isinstance(given, (ast.Constant, ast.List)) or (
        isinstance(given, ast.Name) and last_name(made.func) == "tensor"
    )


def _is_data_of(node: ast.AST, name: str) -> bool:
    """`x.initialized.data`."""
    is_data = isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.value, ast.Attribute)
    return is_data and node.value.attr == name  # type: ignore[attr-defined]


def _writes(method: FunctionInfo, name: str) -> Iterator[int]:
    """The places of a method that write to the attribute, or bind it anew."""
    path = f"{method.self_name}.{name}"
    if method.name != "__init__":
        yield from (id(written) for written, _ in written_in(method) if dotted(written) == path)
        for node in method.nodes:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and dotted(node) == path:
                yield id(node)


def _guarded(method: FunctionInfo, name: str) -> set[int]:
    """What stands in a branch of a test that names the attribute."""
    found: set[int] = set()
    for node in method.nodes:
        if isinstance(node, ast.If) and any(
            isinstance(each, ast.Attribute) and each.attr == name for each in subtree(node.test)
        ):
            found.update(id(part) for statement in node.body for part in subtree(statement))
    return found
