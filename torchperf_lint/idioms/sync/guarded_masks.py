"""`if mask.any(): x[mask] = 0`: what goes through the mask does nothing where it chooses nothing; nobody has to ask."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, Safety
from torchperf_lint.idioms import evaluating, writes
from torchperf_lint.idioms.sync.unasked import asked_mask, without_asking
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.unasked import Asked
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_WRITE = "write through the mask without asking whether it chooses anything"
_CHOOSE = "choose by the mask without asking whether it chooses anything"
_ASSUMES_WRITE = "the mask holds truth values, and the tensor may be written to in place where it chooses nothing, too"
_ASSUMES_CHOICE = (
    "what the mask chooses has the dtype, shape and strides of what it replaces, and finite gradients beside the mask"
)
_ASSUMES_COPY = (
    "the tensor may be written to in place where the mask chooses nothing, too, and what it chooses has its shape, "
    "and finite gradients beside the mask"
)
_SAVE_THEIR_RESULT = frozenset(
    "softmax log_softmax exp expm1 exp2 sigmoid tanh sqrt rsqrt reciprocal relu elu selu leaky_relu".split()
)
"""Functions whose gradient is computed from their result: a write to that breaks the backward pass."""
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)
_OF_TENSORS = (ast.Div, ast.Pow)
"""What fails for numbers, as a division by zero, and for no tensor."""
_ELEMENTWISE = frozenset(
    "where full_like zeros_like ones_like abs neg exp log log2 log10 log1p expm1 sqrt rsqrt square pow sigmoid tanh "
    "clamp clip minimum maximum logical_not logical_and logical_or isnan isinf isfinite add sub mul div lt le gt ge eq "
    "ne unsqueeze detach float double half bool long masked_fill".split()
)
"""Methods and functions of torch that draw no random numbers, and give as many elements as they are given."""


def asked_for_nothing(model: Model, site: Site) -> Fix | None:
    """The branch without the test, or with what else the test asks, if all it does goes through the mask."""
    statement, function = model.statement_of(site.node), model.function_of(site)
    if not isinstance(statement, ast.If) or statement.orelse or not site.tree.lossless:
        return None
    asked = asked_mask(model, site)
    if asked is None:
        return None
    branch = _Branch(model, function, statement, asked)
    if all(_writes_number(model, function, each, asked) for each in statement.body):
        title, assumes = _WRITE, _ASSUMES_WRITE
    elif branch.only_chooses():
        title, assumes = _CHOOSE, _ASSUMES_COPY if branch.copies else _ASSUMES_CHOICE
    else:
        return None
    changed = without_asking(model, site, asked, statement)
    return None if changed is None else Fix(title, Safety.UNSAFE, changed, assumes)


def _writes_number(model: Model, function: FunctionInfo, statement: ast.stmt, asked: Asked) -> bool:
    """Whether a statement writes a number to the elements that the mask chooses."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Subscript):
        return False
    if not asked.chooses(target.slice) or model.value_in(function, target.slice).dtype not in (None, "bool"):
        return False
    written = dotted(target.value) or _part(target.value)
    if written is None or written == asked.mask or written.startswith(f"{asked.mask}."):
        return False
    if model.value_in(function, target.value).kind is Kind.CONTAINER:
        return False  # an entry of a dict, whose key is the mask
    if _is_saved(model, function, target.value):
        return False
    return model.is_certain_number(function, statement.value) and _only_reckons(model, function, statement.value)


def _only_reckons(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the number is made without code of the project: `float("-inf")`."""
    calls = [each for each in subtree(node) if isinstance(each, (ast.Call, ast.Await, ast.NamedExpr))]
    return all(
        isinstance(each, ast.Call)
        and (model.value_in(function, each.func).ref or "").startswith(("builtins.", "math."))
        for each in calls
    )


def _part(node: ast.expr) -> str | None:
    """`x` of `x[1:]`, which is a view."""
    return dotted(node.value) if isinstance(node, ast.Subscript) and _is_of_slices(node) else None


def _is_of_slices(node: ast.Subscript) -> bool:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return all(isinstance(each, ast.Slice) for each in parts)


def _is_saved(model: Model, function: FunctionInfo, written: ast.expr) -> bool:
    """Whether autograd keeps the tensor for the backward pass, so that no step in which nothing is chosen may write."""
    base = written.value if isinstance(written, ast.Subscript) else written
    made = model.all_bindings(function, base.id) if isinstance(base, ast.Name) else []
    return any(isinstance(each, ast.Call) and last_name(each.func) in _SAVE_THEIR_RESULT for each in made)


class _Branch:
    """A branch whose statements replace what the mask chooses: `x = torch.where(mask, y, x)`."""

    def __init__(self, model: Model, function: FunctionInfo, statement: ast.If, asked: Asked) -> None:
        self._model, self._function, self._statement, self._asked = model, function, statement, asked
        self.copies = False  # whether it writes in place
        self._kept: dict[str, str] = {}  # names of the branch alone that hold such a choice, and what it replaces

    def only_chooses(self) -> bool:
        """Whether the branch replaces anything, and does nothing else that would be seen."""
        does = [self._does(each) for each in self._statement.body]
        return True in does and None not in does

    def _does(self, statement: ast.stmt) -> bool | None:
        """True for a choice, False for a value that only the branch uses, None for anything else."""
        if isinstance(statement, ast.Expr):
            return self._copies(statement.value) or None
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target, value = statement.targets[0], statement.value
        path = dotted(target)
        if path is None or path == self._asked.mask or self._asked.mask.startswith(f"{path}."):
            return None
        if (self._replaced_in(value) == path or self._kept.get(ast.unparse(value)) == path) and not self._is_written(
            path
        ):
            self._kept = {name: what for name, what in self._kept.items() if what != path}
            return True
        if not isinstance(target, ast.Name) or not self._is_of_branch(target.id) or not self._only_computes(value):
            return None
        replaced = self._replaced_in(value)
        self._kept |= {target.id: replaced} if replaced else {}
        return False

    def _copies(self, node: ast.expr) -> bool:
        """`x.copy_(torch.where(mask, y, x))`."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "copy_":
            return False
        written = dotted(node.func.value)
        if len(node.args) != 1 or node.keywords or written in (None, self._asked.mask):
            return False
        self.copies = self._replaced_in(node.args[0]) == written
        return self.copies and not _is_saved(self._model, self._function, node.func.value)

    def _is_written(self, path: str) -> bool:
        """Whether the function writes in place to what it replaces, which others may have as long as it stays."""
        paths = (dotted(written) or _part(written) for written, _ in writes.written_in(self._function))
        return path in paths

    def _replaced_in(self, node: ast.expr) -> str | None:
        """`x` of `torch.where(mask, y, x)`, where y is of another dtype nowhere that is shown."""
        if not isinstance(node, ast.Call) or len(node.args) != 3 or node.keywords:
            return None
        if self._model.value_in(self._function, node.func).ref != "torch.where":
            return None
        mask, *both = node.args
        if self._asked.spares(mask):
            both.reverse()
        elif not self._asked.chooses(mask):
            return None
        new, old = both
        path = dotted(old)
        replaces = path is not None and all(map(self._only_computes, both)) and self._may_be_of_one_dtype(new, old)
        return path if replaces else None

    def _may_be_of_one_dtype(self, new: ast.expr, old: ast.expr) -> bool:
        chosen, kept = (self._model.value_in(self._function, each).dtype for each in (new, old))
        if not self._model.is_certain_number(self._function, new):
            return None in (chosen, kept) or chosen == kept
        floats = kept is None or kept.startswith(("float", "bfloat"))
        return chosen in ("int", "float") and kept != "bool" and (floats or chosen == "int")

    def _is_of_branch(self, name: str) -> bool:
        """Whether what the branch binds the name to is read in this branch alone."""
        inside = {id(part) for each in self._statement.body for part in subtree(each)}
        around = self._function.node
        if isinstance(around, ast.Module):
            return False
        for each in subtree(around):
            if isinstance(each, (ast.Global, ast.Nonlocal)) and name in each.names:
                return False
            if not isinstance(each, ast.Name) or each.id != name or id(each) in inside:
                continue
            if not isinstance(each.ctx, ast.Store) and not self._is_bound_before(each):
                return False
        return True

    def _is_bound_before(self, use: ast.Name) -> bool:
        """Whether the same block binds the name anew before it is used."""
        node: ast.AST | None = self._function.parents.get(use)
        while node is not None and not isinstance(node, ast.stmt):
            node = self._function.parents.get(node)
        if node is None:
            return False  # in a function of its own
        before = (each.targets for each in self._model.place_of(node).before if isinstance(each, ast.Assign))
        return any(isinstance(each, ast.Name) and each.id == use.id for targets in before for each in targets)

    def _only_computes(self, node: ast.expr) -> bool:
        """Whether it works element by element, on what the mask has no part in, and cannot fail for its values."""
        if isinstance(node, (ast.Name, ast.Constant)):
            return True
        if isinstance(node, ast.Attribute):
            path_only = not evaluating.runs_a_property(self._model, self._function, node)
            return path_only and self._only_computes(node.value)
        if isinstance(node, ast.UnaryOp):
            return self._only_computes(node.operand)
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            of_tensors = any(self._model.value_in(self._function, each).holds_tensors for each in sides)
            known = isinstance(node.op, _ARITHMETIC) or (isinstance(node.op, _OF_TENSORS) and of_tensors)
            known = known or (isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant))
            return known and all(map(self._only_computes, sides))
        if isinstance(node, ast.Compare):
            compares = len(node.ops) == 1 and not isinstance(node.ops[0], (ast.In, ast.NotIn))
            return compares and all(map(self._only_computes, (node.left, *node.comparators)))
        return isinstance(node, ast.Call) and self._call_only_computes(node)

    def _call_only_computes(self, call: ast.Call) -> bool:
        if any(each.arg in (None, "out", "device") for each in call.keywords):
            return False
        if not all(map(self._only_computes, (*call.args, *(each.value for each in call.keywords)))):
            return False
        called, name = self._model.value_in(self._function, call.func), last_name(call.func)
        if called.ref == "builtins.len":
            return True
        if called.kind is Kind.LIBRARY:
            return (called.ref or "").startswith("torch.") and name in _ELEMENTWISE
        of_tensor = isinstance(call.func, ast.Attribute) and called.function is None and name in _ELEMENTWISE
        if not of_tensor or not isinstance(call.func, ast.Attribute):
            return False
        owner = call.func.value
        return self._model.value_in(self._function, owner).is_tensor and self._only_computes(owner)
