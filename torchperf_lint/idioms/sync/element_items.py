"""Comprehensions of reads, `[f(x).item() for x in xs]`: they make the tensors first, and one read takes them all."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms import evaluating, surroundings
from torchperf_lint.idioms.scripting import outside_torchscript
from torchperf_lint.idioms.written_helpers import ITEMS, defined
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits
from torchperf_lint.syntax.tree import own_expressions

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

    _Comprehension = cst.ListComp | cst.DictComp | cst.GeneratorExp

_Made = ast.ListComp | ast.DictComp | ast.GeneratorExp
_TITLE = "read all of them at once"
_ASSUMES = "to make a tensor or to walk on changes no tensor that was made before"
_BUILTINS = ("all", "dict", "len", "list", "type", "zip")
_VIEWS = frozenset({"items", "keys", "values"})
_WALKS = frozenset({"builtins.enumerate", "builtins.range", "builtins.reversed", "builtins.zip"})


@outside_torchscript
def items_at_once(model: Model, read: HostRead, comprehension: _Comprehension) -> Fix | NoFix:
    """`_items([x for x in xs])` for `[x.item() for x in xs]`, and the same for a generator or the values of a dict."""
    made = comprehension.value if isinstance(comprehension, cst.DictComp) else comprehension.elt
    torch, node, tree = model.name_of("torch", read.site), _meaning(model, read, comprehension), read.site.tree
    if made is not read.site.node or not isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
        return NoFix.FORM
    if any(each.is_async or not _binds_names(each.target) for each in node.generators) or not _gives_items(model, read):
        return NoFix.FORM
    if _reads_pieces(model, read, node):
        return NoFix.SHAPE_UNKNOWN
    if surroundings.is_spelled_out(model, read.site):
        return NoFix.FORM
    if torch is None or not tree.lossless or not all(map(model.keeps_builtin, _BUILTINS)):
        return NoFix.NO_ROOM
    kept = edits.text_of(tree, read.tensor) + edits.blank_before_word(tree, read.site.node)
    if isinstance(read.tensor, cst.Call):
        # Its graph is not kept until all are made.
        kept = f"{edits.postfix(tree, read.tensor)}.detach(){edits.blank_before_word(tree, read.site.node)}"
    changed = edits.together(
        defined(model, ITEMS, torch, model.statement_of(read.site.node)),
        _around(comprehension, *tree.span(comprehension)),
        edits.replace(tree, read.site.node, kept),
    )
    if changed is None:
        return NoFix.NO_ROOM
    function = model.function_of(read.site)
    plain = all(_is_plain(model, function, each) for each in _evaluated(model, read, node))
    return Fix(_TITLE, Safety.SAFE if plain else Safety.UNSAFE, changed, _ASSUMES)


def _meaning(model: Model, read: HostRead, comprehension: _Comprehension) -> ast.expr | None:
    """The comprehension in Python's own tree, where the call's parentheses belong to a generator that it is given."""
    if not isinstance(comprehension, cst.GeneratorExp):
        return model.ast_of(comprehension)
    item = model.ast_of(read.site.node)
    among = own_expressions(model.statement_of(read.site.node))
    return next((each for each in among if isinstance(each, ast.GeneratorExp) and each.elt is item), None)


def _binds_names(target: ast.expr) -> bool:
    """Whether it binds names only: a target such as `x.data` would store into what the comprehension keeps."""
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return all(isinstance(each, ast.Name) or (each is not target and _binds_names(each)) for each in parts)


def _around(comprehension: _Comprehension, start: int, end: int) -> tuple[Edit, ...]:
    """The call of the helper around the comprehension; it takes a list in the place of a generator."""
    listed = isinstance(comprehension, cst.GeneratorExp)
    opening, closing = f"{ITEMS.name}({'[' * listed}", f"{']' * listed})"
    return Edit(start, start, opening.encode()), Edit(end, end, closing.encode())


def is_used_up(model: Model, generator: cst.GeneratorExp) -> bool:
    """Whether a builtin takes all items of the generator at once: `sum(x.item() for x in xs)`."""
    argument = model.parent(generator)
    call = model.parent(argument) if isinstance(argument, cst.Arg) else None
    if not isinstance(call, cst.Call) or argument is not call.args[0] or argument.star:
        return False
    return (model.value(call.func).ref or "").removeprefix("builtins.") in _USE_UP


_USE_UP = frozenset("sum max min sorted list tuple set frozenset".split())
_PLAIN = (Kind.TENSOR, Kind.NUMBER, Kind.STRING, Kind.NUMPY)
_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp)
_LAYS_OUT = frozenset(f"builtins.{name}" for name in ("list", "tuple", "dict", "sorted"))


def _reads_pieces(model: Model, read: HostRead, node: _Made) -> bool:
    """Whether it reads what one tensor is made of: there may be many pieces, and `tolist` is the way to read them."""
    walked, function = node.generators[-1].iter, model.function_of(read.site)
    if isinstance(walked, ast.Call) and isinstance(walked.func, ast.Attribute):
        walked = walked.func.value
    return isinstance(model.ast_of(read.tensor), ast.Name) and model.value_in(function, walked).is_tensor


def _gives_items(model: Model, read: HostRead) -> bool:
    """Whether the read gives what `item()` does."""
    dtype = model.value(read.tensor).dtype or ""
    kinds = {"item": ("",), "float": ("float", "bfloat"), "int": ("int", "uint")}[read.reader]
    return dtype.startswith(kinds)


def _evaluated(model: Model, read: HostRead, node: _Made) -> list[ast.expr | None]:
    """What the comprehension evaluates between one read and the next."""
    parts: list[ast.expr | None] = [model.ast_of(read.tensor)]
    parts += [node.key] if isinstance(node, ast.DictComp) else []
    return parts + [part for each in node.generators for part in (each.iter, *each.ifs)]


def _is_plain(model: Model, function: FunctionInfo, node: ast.expr | None) -> bool:
    """Whether it runs none of the project's code to evaluate an expression, and to walk what it gives."""
    if isinstance(node, ast.JoinedStr):
        filled = [each for each in node.values if isinstance(each, ast.FormattedValue)]
        return all(each.format_spec is None and _is_plain(model, function, each.value) for each in filled)
    if isinstance(node, ast.Call):
        called = model.value_in(function, node.func)
        if called.ref in _WALKS and not node.keywords:
            return all(_is_plain(model, function, each) for each in node.args)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS and not node.args:
            return evaluating.only_computes(model, function, node.func.value)
    if node is None or not evaluating.only_computes(model, function, node):
        return False
    if isinstance(node, (ast.Compare, ast.Constant)) or model.value_in(function, node).kind in _PLAIN:
        return True
    made = model.all_bindings(function, node.id) if isinstance(node, ast.Name) else [node]
    return bool(made) and all(_is_laid_out(model, function, each) for each in made)


def _is_laid_out(model: Model, function: FunctionInfo, made: ast.expr) -> bool:
    """Whether an expression is shown to give all its items at once: an iterator may run the project's code for each."""
    if isinstance(made, _DISPLAYS):
        return True
    if not isinstance(made, ast.Call):
        return False
    called = model.value_in(function, made.func)
    if called.kind is Kind.METHOD:
        return called.element is not None and called.element.holds_tensors
    ref = called.ref or ""
    return ref in _LAYS_OUT or (ref.startswith("torch.") and not ref.startswith("torch.utils."))
