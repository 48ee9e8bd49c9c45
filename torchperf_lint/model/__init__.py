"""The semantic model of one file: what rules may ask, by libcst node, with answers of yes, no or unknown."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because, Edit
from torchperf_lint.knowledge import conventions
from torchperf_lint.model import flow, frameworks
from torchperf_lint.model.heat import Heat, HeatMap
from torchperf_lint.model.index import CallRecord, ClassInfo, FunctionInfo, Index, last_name
from torchperf_lint.model.interpret import World
from torchperf_lint.model.loops import Loops
from torchperf_lint.model.values import UNKNOWN, Device, Kind, Value
from torchperf_lint.syntax.site import Site, StatementTree, statement_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.syntax import cst
    from torchperf_lint.syntax.source import Source

__all__ = ["Because", "Device", "Heat", "Hints", "Kind", "Model", "Site", "Value"]


class Hints(NamedTuple):
    """What the user adds to the model: functions that run per batch, names of loaders."""

    hot_functions: tuple[str, ...] = ()
    loader_names: tuple[str, ...] = ()


class Model:
    """Answers questions about one file. Nothing is computed before it is asked for."""

    def __init__(self, source: Source, tree: ast.Module, target: Target, hints: Hints | None = None) -> None:
        """`tree` is `source.parse()`; `target` says which torch and torchmetrics the project runs on."""
        hints = hints or Hints()
        self.target = target
        self._source = source
        self._index = Index(tree)
        self._world = World(self._index, source.text)
        self._loops = Loops(self._world, hints.loader_names)
        self._heat = HeatMap(self._world, self._loops, hints.hot_functions)
        self._trees: dict[ast.stmt, StatementTree | None] = {}
        self._tree_of: dict[int, StatementTree] = {}
        self._statement_of: dict[int, ast.stmt] = {}
        self._meaning: dict[int, dict[tuple[int, int], list[ast.AST]]] = {}

    # -- sites -----------------------------------------------------------------------------------------------------

    def method_calls(self, *names: str, hot: bool = False) -> Iterator[Site]:
        """Calls `x.name(...)` for these names, in source order; with `hot`, only those that run in every step."""
        yield from self._sites(names, hot, lambda record: isinstance(record.call.func, ast.Attribute))

    def method_or_function_calls(self, *names: str, hot: bool = False) -> Iterator[Site]:
        """Calls `name(...)` and `x.name(...)` for these names, in source order."""
        yield from self._sites(names, hot, lambda record: True)

    def calls(self, *refs: str, hot: bool = False) -> Iterator[Site]:
        """Calls of these library functions or classes, by qualified name, through any alias."""
        wanted = frozenset(refs)

        def is_wanted(record: CallRecord) -> bool:
            value = self._world.frame_value(record.function, record.call.func)
            return value.kind is Kind.LIBRARY and value.ref in wanted

        yield from self._sites(tuple(ref.rpartition(".")[2] for ref in refs), hot, is_wanted)

    def calls_of_kind(self, kind: Kind, *names: str, hot: bool = False) -> Iterator[Site]:
        """Calls `x.name(...)` whose `x` is of the kind; the name `__call__` stands for `x(...)` itself."""
        yield from self._sites(
            tuple(name for name in names if name != "__call__"),
            hot,
            lambda record: isinstance(record.call.func, ast.Attribute)
            and self._world.frame_value(record.function, record.call.func.value).kind is kind,
        )
        if "__call__" in names:
            yield from self._sites(
                tuple(self._index.calls),
                hot,
                lambda record: self._world.frame_value(record.function, record.call.func).kind is kind,
            )

    def scalar_reads(self, hot: bool = True) -> Iterator[Site]:
        """Calls `x.item()`, `float(x)` and `int(x)`; `float(x.item())` is one, the outer."""
        covered: set[tuple[int, int]] = set()
        for site in self._sites(("item", "float", "int"), hot, _is_scalar_read):
            if any(start <= site.start and site.end <= end for start, end in covered):
                continue
            covered.add((site.start, site.end))
            yield site

    def _sites(self, names: tuple[str, ...], hot: bool, wanted: object) -> Iterator[Site]:
        records = {id(record.call): record for name in dict.fromkeys(names) for record in self._index.calls_named(name)}
        for record in sorted(records.values(), key=lambda r: (r.call.lineno, r.call.col_offset, -(r.call.end_col_offset or 0))):
            if hot and self._heat.of(record.statement) is None:
                continue
            if wanted(record):  # type: ignore[operator]
                site = self._site(record.call, record.statement)
                if site is not None:
                    yield site

    def augmented(self, hot: bool = False) -> Iterator[Site]:
        """Statements `x += ...` and their like, in source order."""
        for node, _ in self._index.augmented:
            if not hot or self._heat.of(node) is not None:
                site = self._site(node, node)
                if site is not None:
                    yield site

    def _site(self, node: ast.Call | ast.AugAssign, statement: ast.stmt) -> Site | None:
        """The libcst side of an ast node, confirmed at its span."""
        tree = self._tree(statement)
        if tree is None:
            return None
        start = self._source.offset(node.lineno, node.col_offset)
        end = self._source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        found = tree.find(type(node).__name__, start, end)
        return None if found is None else Site(found, start, end, tree)

    def _tree(self, statement: ast.stmt) -> StatementTree | None:
        if statement not in self._trees:
            lineage = [statement]
            while (parent := self._index.places[lineage[-1]].parent) is not None:
                lineage.append(parent)
            tree = self._trees[statement] = statement_tree(self._source, lineage)
            if tree is not None:
                for key in tree.spans:
                    self._tree_of[key] = tree
                    self._statement_of[key] = statement
        return self._trees[statement]

    def site(self, node: cst.CSTNode) -> Site:
        """The site of a node that hangs in the tree of another site."""
        tree = self._tree_of[id(node)]
        return Site(node, *tree.span(node), tree)

    def text(self, node: cst.CSTNode) -> str:
        """The node's text as it stands in the file."""
        start, end = self._tree_of[id(node)].span(node)
        return self._source.utf8[start:end].decode()

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node around it, up to its statement."""
        return self._tree_of[id(node)].parent(node)

    # -- meaning ---------------------------------------------------------------------------------------------------

    def value(self, node: cst.CSTNode) -> Value:
        """What the expression is; UNKNOWN where that cannot be told."""
        meaning = self._ast_of(node)
        if meaning is None:
            return UNKNOWN
        function = self._index.places[self._statement_of[id(node)]].function
        return self._world.frame_value(function, meaning)

    def _ast_of(self, node: cst.CSTNode) -> ast.expr | None:
        tree = self._tree_of.get(id(node))
        if tree is None:
            return None
        statement = self._statement_of[id(node)]
        table = self._meaning.get(id(statement))
        if table is None:
            table = self._meaning[id(statement)] = {}
            for inner in _own_expressions(statement):
                start = self._source.offset(inner.lineno, inner.col_offset)
                end = self._source.offset(inner.end_lineno or inner.lineno, inner.end_col_offset or 0)
                table.setdefault((start, end), []).append(inner)
        start, end = tree.span(node)
        for candidate in table.get((start, end), ()):
            if tree.find(type(candidate).__name__, start, end) is node:
                return candidate  # type: ignore[return-value]
        return None

    def on_device(self, node: cst.CSTNode) -> tuple[Because, ...] | None:
        """What shows that the expression is a tensor (or holds tensors) on the accelerator; None if nothing does.

        An empty tuple means that it is known without a single place to point to.
        """
        value = self.value(node)
        is_moved_object = value.kind is Kind.UNKNOWN and value.device.on_accelerator
        if (value.holds_tensors or is_moved_object) and value.device.on_accelerator:
            return value.because
        return None

    # -- heat ------------------------------------------------------------------------------------------------------

    def heat(self, site: Site) -> Heat | None:
        """The loop, hook or call path that runs the site in every step; None if cold, unknown or throttled."""
        return self._heat.of(self._statement_of[id(site.node)])

    def throttled(self, site: Site) -> bool:
        """Whether only a throttle (every n steps, a log flag, ...) keeps the site from running in every step."""
        return self._heat.throttled(self._statement_of[id(site.node)])

    def step_counter(self, site: Site) -> str | None:
        """The name that counts the passes of the batch loop around the site (`for i, batch in enumerate(...)`)."""
        heat = self.heat(site)
        loop = heat.loop if heat is not None else None
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple) or not isinstance(loop.iter, ast.Call):
            return None
        counter = loop.target.elts[0]
        counted = any(
            isinstance(node, ast.Call) and last_name(node.func) == "enumerate" for node in ast.walk(loop.iter)
        )
        return counter.id if counted and isinstance(counter, ast.Name) else None

    def statement_lines(self, site: Site) -> tuple[int, int] | None:
        """First and last row of the site's simple statement, if it has its rows to itself."""
        statement = self._statement_of[id(site.node)]
        rows = (statement.lineno, statement.end_lineno or statement.lineno)
        return rows if isinstance(statement, (ast.Expr, ast.Assign)) and rows == site.rows else None

    def in_lightning_module(self, site: Site) -> bool:
        """Whether the site stands in a method of a LightningModule."""
        cls = self._function(site).cls
        return cls is not None and frameworks.is_lightning_module(self._world, cls)

    def framework(self, site: Site) -> str | None:
        """What a framework promises about the function around the site (`Lightning calls ...`), if one does."""
        contract = frameworks.contract_of(self._world, self._function(site))
        return None if contract is None else contract.says

    def function_name(self, site: Site) -> str:
        """The name of the function around the site (`<module>` at the top level)."""
        return self._function(site).name

    def class_bases(self, site: Site) -> list[str]:
        """Qualified names of the library bases of the class around the site."""
        cls = self._function(site).cls
        return [] if cls is None else self._world.library_bases(cls)

    def is_meter(self, value: Value, name: str) -> bool:
        """Whether a value is an average meter: by its class here (a sum, a count), or by a meter class's name."""
        if value.cls is not None:
            return {"sum", "count"} <= set(value.cls.attributes) or {"total", "count"} <= set(value.cls.attributes)
        named = (value.ref or "").rpartition(".")[2]
        return named in conventions.METER_CLASSES or name.lower().endswith(("meter", "metric_logger"))

    def class_of(self, value: Value) -> ClassInfo | None:
        """The class of this file that a value is an instance of."""
        return value.cls

    def _function(self, site: Site) -> FunctionInfo:
        return self._index.places[self._statement_of[id(site.node)]].function

    # -- flow ------------------------------------------------------------------------------------------------------

    def uses(self, name: str, site: Site, heat: Heat) -> flow.NameUses:
        """Where `name` occurs in the function around the site, related to the loop of `heat`."""
        return flow.uses_of(name, self._function(site), heat.loop, self._index, self._heat, self._source)

    def rebinds(self, heat: Heat, name: str) -> bool:
        """Whether the loop of `heat` binds the name."""
        return heat.loop is not None and name in flow.names_bound_in(heat.loop)

    def guarded_by_try(self, heat: Heat) -> bool:
        """Whether the loop of `heat` stands in a `try` of its function, where an exception may be caught."""
        current: ast.stmt | None = heat.loop
        while current is not None:
            current = self._index.places[current].parent
            if isinstance(current, ast.Try):
                return True
        return False

    def has_else(self, heat: Heat) -> bool:
        """Whether the loop of `heat` has an else-branch."""
        return heat.loop is not None and bool(heat.loop.orelse)

    def insert_after(self, heat: Heat, line: str) -> Edit | None:
        """Put a line of code directly after the loop of `heat`, at the loop's indentation."""
        loop = heat.loop
        if loop is None or loop.end_lineno is None:
            return None
        source = self._source
        header = source.line(loop.lineno)
        indent = header[: loop.col_offset]
        end = source.offset(loop.end_lineno, loop.end_col_offset or 0)
        rest = source.line(loop.end_lineno).encode()[loop.end_col_offset or 0 :].strip()
        if indent.strip() or (rest and not rest.startswith(b"#")):
            return None
        last = loop.end_lineno >= len(source.line_starts)
        place = len(source.utf8) if last else source.line_starts[loop.end_lineno]
        newline = source.newline
        content = f"{newline}{indent}{line}" if last and place >= end else f"{indent}{line}{newline}"
        return Edit(place, place, content.encode())

    def name_of(self, ref: str, site: Site) -> str | None:
        """A name under which a library module can be reached at the site; None if there is none."""
        function: FunctionInfo | None = self._function(site)
        hidden: set[str] = set()
        while function is not None:
            env = self._world.frame(function).env
            for name in sorted(env):
                value = env[name]
                if value.kind is Kind.LIBRARY and value.ref == ref and name not in hidden and name.isidentifier():
                    return name
            hidden |= set(env)
            function = function.outer
        return None

    def mentions(self, *words: str) -> bool:
        """Whether any of the words occurs in the file's text."""
        return any(word in self._source.text for word in words)

    @property
    def accelerator_in_sight(self) -> bool:
        """Whether the file speaks of an accelerator or of a framework that uses one."""
        return not self._world.cpu_only


def _is_scalar_read(record: CallRecord) -> bool:
    call = record.call
    if isinstance(call.func, ast.Attribute):
        return call.func.attr == "item" and not call.args
    return isinstance(call.func, ast.Name) and call.func.id in ("float", "int") and len(call.args) == 1


def _own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, without those of statements inside it."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.expr):
            yield node
        pending.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))
