"""Sites: libcst nodes for the index's calls, confirmed by their spans, and the semantics of those nodes."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import loading, torch_api
from torchperf_lint.knowledge.versions import Stated
from torchperf_lint.model.asking.frequency import FrequencyModel
from torchperf_lint.model.domain.values import UNKNOWN, Kind, Value
from torchperf_lint.model.syntax import scope
from torchperf_lint.model.syntax.hostdata import is_host_data
from torchperf_lint.model.values import loader_classes
from torchperf_lint.syntax.site import Site, StatementTree, statement_tree
from torchperf_lint.syntax.tree import own_expressions, subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.domain.frequency import HotPath
    from torchperf_lint.model.domain.interfaces import FileQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo, Place
    from torchperf_lint.syntax import cst

_Node = TypeVar("_Node", bound=ast.expr)
_BRIEF = 60
"""Characters of source that a message quotes at most."""
_ONLY_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


class HotExpression(NamedTuple):
    """An expression that runs in every step, with the values of its statement's expressions."""

    node: ast.expr
    statement: ast.stmt
    function: FunctionInfo
    values: Mapping[ast.expr, Value]
    hot_path: HotPath


class SiteModel(FrequencyModel):
    """The part of the model that finds sites and maps their nodes to values."""

    def __init__(self, analyzed: FileQuestions, target: Target) -> None:
        """`target` says which torch and torchmetrics the project runs on."""
        super().__init__(analyzed, target)
        self._trees: dict[ast.stmt, StatementTree | None] = {}
        self._turns: Counter[str] = Counter()
        self._tree_of: dict[int, StatementTree] = {}
        self._statement_of: dict[int, ast.stmt] = {}
        self._meaning: dict[int, dict[tuple[int, int], list[ast.AST]]] = {}

    def target_evidence(self, package: str) -> tuple[Because, ...]:
        """Evidence where the project states the package's version; empty if it is configured or unknown."""
        known = getattr(self.target, package)
        return (Because(known.row, known.text, known.path),) if isinstance(known, Stated) else ()

    # -- sites -----------------------------------------------------------------------------------------------------

    def method_calls(self, *names: str, hot: bool = False) -> Iterator[Site]:
        """Calls `x.name(...)` of these names, in source order; with `hot`, only those that run in every step."""
        yield from self.sites(names, hot, lambda record: isinstance(record.call.func, ast.Attribute))

    def method_or_function_calls(self, *names: str, hot: bool = False) -> Iterator[Site]:
        """Calls `name(...)` and `x.name(...)` of these names, in source order."""
        yield from self.sites(names, hot, lambda record: True)

    def calls(self, *refs: str, hot: bool = False, near_device: bool = True) -> Iterator[Site]:
        """Calls of these library functions or classes, by qualified name, through any alias.

        With `hot`, only those that run in every step, and unless `near_device` is False, in a statement that uses a
        value on the device.
        """
        wanted = frozenset(refs)

        def is_wanted(record: CallRecord) -> bool:
            value = self.callee(record)
            return value.kind is Kind.LIBRARY and value.ref in wanted

        yield from self.sites(tuple(ref.rpartition(".")[2] for ref in refs), hot, is_wanted, near_device)

    def loaders(self) -> Iterator[Site]:
        """Calls that build data loaders: of a library's class, or of its constructor in a class derived from it.

        Where that constructor leaves the options to its caller, it is the call of the class.
        """
        yield from self.calls(*torch_api.LOADERS)
        yield from self.sites(("__init__",), False, self._builds_own_loader)
        own = {each.name for each in self._index.classes if each.head.bases}
        named = tuple(name for name in self._index.calls if name.endswith("Loader") or name in own)
        yield from self.sites(named, False, lambda record: self._leaving_options(self.callee(record)) is not None)

    def loader_position(self, site: Site, name: str) -> int | None:
        """The 0-based position of a loader's parameter in the call that builds it; None if it is keyword-only."""
        made = self.value(site.node.func)
        constructor = self._leaving_options(made)
        if constructor is not None:
            return loader_classes.maker_position(constructor, name)
        cls = None if made.kind is Kind.LIBRARY else self.place(site.node).function.cls
        own = made.ref if cls is None else loader_classes.loader_class(self._inference, cls)
        return loading.position(own or "", name)

    def is_of_own_class(self, site: Site) -> bool:
        """Whether the call builds a loader of a class of the project."""
        return self._leaving_options(self.value(site.node.func)) is not None

    def _leaving_options(self, made: Value) -> FunctionInfo | None:
        """The constructor that leaves the options to its caller, if the value is such a class."""
        return None if made.kind is not Kind.CLASS or made.cls is None else self._options_from_caller(made.cls)

    def _options_from_caller(self, cls: ClassInfo) -> FunctionInfo | None:
        question = (SiteModel._options_from_caller, cls)
        return self.remember(question, lambda: loader_classes.options_from_caller(self._inference, cls))

    def _builds_own_loader(self, record: CallRecord) -> bool:
        cls = record.function.cls
        if cls is None or loader_classes.building_call(self._inference, cls) is not record:
            return False
        return self._options_from_caller(cls) is None

    def builtin_calls(self, *names: str, given: Kind | None = None) -> Iterator[Site]:
        """Calls of these builtins by their own names, where the file does not rebind them.

        With `given`, only those whose first argument is of that kind.
        """
        kept = tuple(name for name in names if not scope.binds(self._index, name, self.source.text))

        def is_wanted(record: CallRecord) -> bool:
            call = record.call
            if not isinstance(call.func, ast.Name) or given is None:
                return isinstance(call.func, ast.Name)
            return bool(call.args) and self.value_in(record.function, call.args[0]).kind is given

        yield from self.sites(kept, False, is_wanted)

    def calls_of_kind(self, kind: Kind, *names: str, hot: bool = False) -> Iterator[Site]:
        """Calls `x.name(...)` whose `x` is of the kind; the name `__call__` stands for `x(...)` itself."""
        yield from self.sites(
            tuple(name for name in names if name != "__call__"),
            hot,
            lambda record: (
                isinstance(record.call.func, ast.Attribute)
                and self.value_in(record.function, record.call.func.value).kind is kind
            ),
            near_device=False,
        )
        if "__call__" in names:
            yield from self.sites(
                tuple(self.called_names),
                hot,
                lambda record: self.callee(record).kind is kind,
                near_device=False,
            )

    def scalar_reads(self, hot: bool = True, repeated: bool = False) -> Iterator[Site]:
        """Calls `x.item()`, `float(x)` and `int(x)`; `float(x.item())` counts once, as the outer call.

        With `repeated`, only those inside a comprehension. Conversions are always restricted to hot ones.
        """
        wanted = _is_repeated_read if repeated else _is_scalar_read
        sites = [*self.sites(("item",), hot, wanted), *self.sites(("float", "int"), True, wanted)]
        covered = -1  # end of the last site, in bytes
        for site in sorted(sites, key=lambda site: (site.start, -site.end)):
            if site.end > covered:
                covered = site.end
                yield site

    def sites(
        self, names: tuple[str, ...], hot: bool, wanted: Callable[[CallRecord], bool], near_device: bool = True
    ) -> Iterator[Site]:
        """The calls of these names that satisfy `wanted`; with `hot` and `near_device`, only those near the device."""
        records = {id(record.call): record for record in self.calls_named(*dict.fromkeys(names))}
        if self._inference.cpu_only and hot:
            return
        for record in sorted(
            records.values(), key=lambda r: (r.call.lineno, r.call.col_offset, -(r.call.end_col_offset or 0))
        ):
            if hot and not self._frequency.may_be_hot(record.statement):
                continue
            if not wanted(record) or (hot and not self.is_hot(record.statement, near_device, record.call)):
                continue
            if hot and self._frequency.guarded_in_expression(record.statement, record.call):
                continue
            site = self.site_at(record.call, record.statement)
            if site is not None:
                yield site

    def hot_expressions(
        self,
        among: Callable[[ast.stmt, FunctionInfo], Sequence[_Node]],
        wanted: Callable[[_Node, Mapping[ast.expr, Value]], bool],
    ) -> Iterator[HotExpression]:
        """The expressions in every step that `among` selects in their statement by form, and `wanted` by its values.

        Statement by statement, in source order. The test of a `while` runs again before each pass.
        """
        if self._inference.cpu_only:
            return
        for statement, runs in self.remember(SiteModel.hot_expressions, self._perhaps_hot):
            function = self.place_of(statement).function
            found = among(statement, function)
            values = self.values_in(function, statement) if found else {}
            for node in found:
                hot_path = self._frequency.of_part(runs, node) if wanted(node, values) else None
                if hot_path is not None and not self._frequency.guarded_in_expression(statement, node):
                    yield HotExpression(node, statement, function, values, hot_path)

    def _perhaps_hot(self) -> list[tuple[ast.stmt, ast.stmt]]:
        """The statements that may be hot, each with the one whose frequency is that of its expressions."""
        found = []
        for statement in self.statements:
            runs = statement.body[0] if isinstance(statement, ast.While) else statement
            if not isinstance(statement, _ONLY_DEFINES) and self.may_be_hot(runs):
                found.append((statement, runs))
        return found

    def is_hot(self, statement: ast.stmt, near_device: bool = True, part: ast.expr | None = None) -> bool:
        """Whether the statement, or this part of it, runs in every step.

        Cheap checks come first: finding callers reads other files.
        """
        if self._inference.cpu_only or not self._frequency.may_be_hot(statement):
            return False
        if near_device and not self._is_near_device(statement):
            return False
        hot_path = self._frequency.of(statement) if part is None else self._frequency.of_part(statement, part)
        return hot_path is not None

    def _is_near_device(self, statement: ast.stmt) -> bool:
        """Whether an expression in the statement itself is on an accelerator: otherwise it waits for nothing."""
        values = self.values_in(self.place_of(statement).function, statement)
        return any(values[node].device.on_accelerator for node in own_expressions(statement) if node in values)

    def site_at(self, node: ast.expr | ast.AugAssign, statement: ast.stmt) -> Site | None:
        """The libcst node of an ast node, confirmed by its span."""
        tree = self._tree(statement)
        if tree is None:
            return None
        start = self.source.offset(node.lineno, node.col_offset)
        end = self.source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        found = tree.find(type(node).__name__, start, end)
        return None if found is None else Site(found, start, end, tree)

    def _tree(self, statement: ast.stmt) -> StatementTree | None:
        if statement not in self._trees:
            lineage = [statement, *self.place_of(statement).around()]
            tree = self._trees[statement] = statement_tree(self.source, lineage, self._turns)
            if tree is not None:
                for key in tree.identities:
                    self._tree_of[key] = tree
                    self._statement_of[key] = statement
        return self._trees[statement]

    def site(self, node: cst.CSTNode) -> Site:
        """The site of a node in the tree of another site."""
        tree = self._tree_of[id(node)]
        return Site(node, *tree.span(node), tree)

    def text(self, node: cst.CSTNode) -> str:
        """The node's text in the file."""
        start, end = self._tree_of[id(node)].span(node)
        return self.source.utf8[start:end].decode()

    def brief(self, node: cst.CSTNode) -> str:
        """The node's text for a message: a call that is long or spans several rows is shown without its arguments."""
        text = self.text(node)
        func = getattr(node, "func", None)
        if func is not None and ("\n" in text or len(text) > _BRIEF):
            inner = self.text(func)
            text = f"{inner}(...)" if "\n" not in inner and len(inner) <= _BRIEF else f".{func.attr.value}(...)"
        return " ".join(text.split())

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The parent node within its statement."""
        return self._tree_of[id(node)].parent(node)

    # -- meaning ---------------------------------------------------------------------------------------------------

    def value(self, node: cst.CSTNode) -> Value:
        """The value of the expression; UNKNOWN if it cannot be inferred."""
        meaning = self.ast_of(node)
        if meaning is None:
            return UNKNOWN
        function = self.place(node).function
        return self.value_in(function, meaning)

    def place(self, node: cst.CSTNode) -> Place:
        """Where the statement that contains the node stands: its function, what is around it, its block."""
        return self.place_of(self.statement_of(node))

    def statement_of(self, node: cst.CSTNode) -> ast.stmt:
        """The statement whose tree contains the node."""
        return self._statement_of[id(node)]

    def ast_of(self, node: cst.CSTNode) -> ast.expr | None:
        """The ast expression of a libcst node; None if it is no expression, or is not found."""
        tree = self._tree_of.get(id(node))
        if tree is None:
            return None
        statement = self.statement_of(node)
        table = self._meaning.get(id(statement))
        if table is None:
            table = self._meaning[id(statement)] = {}
            for inner in own_expressions(statement):
                start = self.source.offset(inner.lineno, inner.col_offset)
                end = self.source.offset(inner.end_lineno or inner.lineno, inner.end_col_offset or 0)
                table.setdefault((start, end), []).append(inner)
        start, end = tree.span(node)
        if type(node).__name__ == "Tuple" and node.lpar:  # type: ignore[attr-defined]
            # Python includes a tuple's parentheses in its span, libcst does not.
            start, end = tree.span(node.lpar[-1])[0], tree.span(node.rpar[0])[1]  # type: ignore[attr-defined]
            return next((each for each in table.get((start, end), ()) if isinstance(each, ast.Tuple)), None)
        for candidate in table.get((start, end), ()):
            if tree.find(type(candidate).__name__, start, end) is node:
                return candidate  # type: ignore[return-value]
        return None

    def function_of(self, site: Site) -> FunctionInfo:
        """The enclosing function; at the top level, the module itself."""
        return self.place(site.node).function

    def name_given(self, site: Site) -> str | None:
        """The name that the site's statement gives to its value, `name = ...`, if nothing else binds that name."""
        statement, function = self.statement_of(site.node), self.function_of(site)
        if not isinstance(statement, ast.Assign) or statement.value is not self.ast_of(site.node):
            return None
        target = statement.targets[0] if len(statement.targets) == 1 else None
        return target.id if isinstance(target, ast.Name) and self.bound_once(function, target.id) else None


def _is_repeated_read(record: CallRecord) -> bool:
    around = record.function.index.comprehensions.get(record.statement, ())
    return _is_scalar_read(record) and any(_holds(node, record.call) for node in around)


def _holds(outer: ast.expr, inner: ast.expr) -> bool:
    return any(node is inner for node in subtree(outer))


def _is_scalar_read(record: CallRecord) -> bool:
    call = record.call
    if isinstance(call.func, ast.Attribute):
        return call.func.attr == "item" and not call.args
    is_conversion = isinstance(call.func, ast.Name) and call.func.id in ("float", "int")
    return is_conversion and len(call.args) == 1 and not is_host_data(call.args[0])
