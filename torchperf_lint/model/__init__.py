"""The semantic model of one file: what rules may ask, by libcst node, with answers of yes, no or unknown."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because, Edit
from torchperf_lint.knowledge import conventions
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.model import calls as calls_
from torchperf_lint.model import flow, frameworks, writes
from torchperf_lint.model.evaluate import asks_about_accelerator
from torchperf_lint.model.heat import Heat, HeatMap
from torchperf_lint.model.index import CallRecord, ClassInfo, FunctionInfo, Index, dotted, last_name
from torchperf_lint.model.interpret import World
from torchperf_lint.model.loading import Loading, Route, Samples
from torchperf_lint.model.loops import LoopKind, Loops
from torchperf_lint.model.seeds import Seeds
from torchperf_lint.model.values import UNKNOWN, Device, Kind, Value
from torchperf_lint.syntax.edits import code_of
from torchperf_lint.syntax.site import Site, StatementTree, statement_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.objects import Objects
    from torchperf_lint.syntax import cst
    from torchperf_lint.syntax.source import Source

__all__ = ["Because", "Device", "Heat", "Hints", "Kind", "Model", "Site", "Value"]


_BRIEF = 60
"""Characters of source that a message can bear."""


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
        self._objects: Objects | None = None
        self._heat = HeatMap(self._world, self._loops, hints.hot_functions)
        self._seeds = Seeds(self._index, hints.hot_functions, hints.loader_names)
        self._loading = Loading(self._world, source.text)
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
            lambda record: (
                isinstance(record.call.func, ast.Attribute)
                and self._world.frame_value(record.function, record.call.func.value).kind is kind
            ),
        )
        if "__call__" in names:
            yield from self._sites(
                tuple(self._index.calls),
                hot,
                lambda record: self._world.frame_value(record.function, record.call.func).kind is kind,
            )

    def scalar_reads(self, hot: bool = True, repeated: bool = False) -> Iterator[Site]:
        """Calls `x.item()`, `float(x)` and `int(x)`; `float(x.item())` is one, the outer.

        With `repeated`, those that a comprehension repeats; of the conversions only the hot ones.
        """
        wanted = _is_repeated_read if repeated else _is_scalar_read
        sites = [*self._sites(("item",), hot, wanted), *self._sites(("float", "int"), True, wanted)]
        covered: set[tuple[int, int]] = set()
        for site in sorted(sites, key=lambda site: (site.start, -site.end)):
            if any(start <= site.start and site.end <= end for start, end in covered):
                continue
            covered.add((site.start, site.end))
            yield site

    def _sites(self, names: tuple[str, ...], hot: bool, wanted: object) -> Iterator[Site]:
        records = {id(record.call): record for name in dict.fromkeys(names) for record in self._index.calls_named(name)}
        if self._world.cpu_only and hot:
            return
        for record in sorted(
            records.values(), key=lambda r: (r.call.lineno, r.call.col_offset, -(r.call.end_col_offset or 0))
        ):
            if hot and not self._is_hot(record.statement):
                continue
            if wanted(record):  # type: ignore[operator]
                site = self._site(record.call, record.statement)
                if site is not None:
                    yield site

    def _is_hot(self, statement: ast.stmt) -> bool:
        """Cheap questions first: no accelerator in the file, or no seed of heat near, and nothing is evaluated."""
        if self._world.cpu_only or not self._seeds.may_be_hot(statement):
            return False
        return self._heat.of(statement) is not None

    def augmented(self, hot: bool = False) -> Iterator[Site]:
        """Statements `x += ...` and their like, in source order."""
        for node, _ in self._index.augmented:
            if not hot or self._is_hot(node):
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

    def brief(self, node: cst.CSTNode) -> str:
        """The node's text for a message: a call that is long or runs over several rows without its arguments."""
        text = self.text(node)
        func = getattr(node, "func", None)
        if func is not None and ("\n" in text or len(text) > _BRIEF):
            inner = self.text(func)
            text = f"{inner}(...)" if "\n" not in inner and len(inner) <= _BRIEF else f".{func.attr.value}(...)"
        return " ".join(text.split())

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
        if type(node).__name__ == "Tuple" and node.lpar:  # type: ignore[attr-defined]
            # Python counts a tuple's parentheses to it, libcst does not.
            start, end = start - len(code_of(node.lpar[-1])), end + len(code_of(node.rpar[0]))  # type: ignore[attr-defined]
            return next((each for each in table.get((start, end), ()) if isinstance(each, ast.Tuple)), None)
        for candidate in table.get((start, end), ()):
            if tree.find(type(candidate).__name__, start, end) is node:
                return candidate  # type: ignore[return-value]
        return None

    def device_named(self, node: cst.CSTNode) -> Device:
        """The device that an expression names where a device is expected, by its value or its name."""
        meaning = self._ast_of(node)
        named = None if meaning is None else calls_.device_argument(meaning, self.value(node))
        return named or Device.UNKNOWN

    def on_device(self, node: cst.CSTNode) -> tuple[Because, ...] | None:
        """What shows that the expression is a tensor (or holds tensors) on the accelerator; None if nothing does.

        An empty tuple means that it is known without a single place to point to.
        """
        value = self.value(node)
        # A field of a model's output (`outputs.logits`) is a tensor if the program treats it as one.
        is_field = value.kind is Kind.METHOD and value.element is not None and value.element.kind is Kind.STRUCTURE
        is_moved_object = (value.kind is Kind.UNKNOWN or is_field) and value.device.on_accelerator
        if (value.holds_tensors or is_moved_object) and value.device.on_accelerator:
            return value.because
        return None

    def sent_backward(self, node: cst.CSTNode) -> bool:
        """Whether the function around calls `.backward()` on what the expression names: then it is a tensor."""
        meaning = self._ast_of(node)
        function = self._index.places[self._statement_of[id(node)]].function
        return meaning is not None and dotted(meaning) in self._world.frame(function).backward

    def creation(self, value: Value) -> Site | None:
        """The call in this file that made the object (a metric, a loader, a module); None if it is not known."""
        created = value.created
        if created is None:
            return None
        records = self._index.calls.get(last_name(created.func) or "", ())
        statement = next((record.statement for record in records if record.call is created), None)
        return None if statement is None else self._site(created, statement)

    def object_calls(self, value: Value) -> tuple[list[tuple[str, Site]], Because | None]:
        """Every call that the file makes on the object, by method name, and where the object leaves sight.

        `__call__` names a call of the object itself. With a place where it leaves sight (it is returned, given
        to code outside the file, ...) there may be more calls than these.
        """
        if value.created is None:
            return [], Because(1, "it is not known where the object is made")
        if self._objects is None:
            from torchperf_lint.model.objects import Objects

            self._objects = Objects(self._world)
        calls, escape = self._objects.trace(value.created)
        found = []
        for name, call in calls:
            record = next(r for r in self._index.calls[last_name(call.func) or ""] if r.call is call)
            site = self._site(call, record.statement)
            if site is None:
                escape = escape or Because(call.lineno, "this call cannot be read")
            else:
                found.append((name, site))
        return found, escape

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
        if (
            not isinstance(loop, ast.For)
            or not isinstance(loop.target, ast.Tuple)
            or not isinstance(loop.iter, ast.Call)
        ):
            return None
        counter = loop.target.elts[0]
        counted = any(
            isinstance(node, ast.Call) and last_name(node.func) == "enumerate" for node in ast.walk(loop.iter)
        )
        return counter.id if counted and isinstance(counter, ast.Name) else None

    def inner_walks(self, site: Site) -> list[tuple[set[str], str | None]]:
        """The `for` loops around the site below its batch loop: the names each binds, innermost first.

        With them goes the text of what the loop walks over, if that is a tensor (or zipped or counted tensors).
        """
        statement = self._statement_of[id(site.node)]
        function = self._function(site)
        found: list[tuple[set[str], str | None]] = []
        for loop in self._loops.enclosing(statement):
            if self._loops.classify(loop, function).kind is not LoopKind.OTHER:
                break
            if isinstance(loop, (ast.For, ast.AsyncFor)):
                targets = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
                values = [self._world.frame_value(function, node) for node in flow.paths(loop.iter)]
                tensors = any(value.kind is Kind.TENSOR and value.device.on_accelerator for value in values)
                found.append((targets, ast.unparse(loop.iter) if tensors else None))
        return found

    def chosen_for_device(self, site: Site) -> bool:
        """Whether the site stands in a branch of an `if` that asks whether, or which, accelerator is used."""
        current: ast.stmt | None = self._statement_of[id(site.node)]
        while current is not None:
            current = self._index.places[current].parent
            if isinstance(current, ast.If) and asks_about_accelerator(current.test) is not None:
                return True
        return False

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

    def in_test(self, site: Site) -> bool:
        """Whether the site stands in a test: a function `test_...` or a method of a TestCase."""
        if self.function_name(site).startswith("test_"):
            return True
        return any(base.endswith("TestCase") for base in self.class_bases(site))

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

    def only_adds_up(self, value: Value, method: str) -> bool:
        """Whether a method of the value's class, which is in this file, does no more than arithmetic and storing."""
        function = None if value.cls is None else self._world.method(value.cls, method)
        if value.cls is None or function is None:
            return False
        called = [record.call.func for record in function.calls_made]
        return all(isinstance(func, ast.Attribute) and self._world.method(value.cls, func.attr) for func in called)

    def class_of(self, value: Value) -> ClassInfo | None:
        """The class of this file that a value is an instance of."""
        return value.cls

    def _function(self, site: Site) -> FunctionInfo:
        return self._index.places[self._statement_of[id(site.node)]].function

    # -- loading ---------------------------------------------------------------------------------------------------

    @property
    def runs_elsewhere(self) -> bool:
        """Whether the file is bound to the CPU, or to accelerators other than CUDA."""
        return self._loading.runs_elsewhere

    def loader_route(self, site: Site) -> Route | None:
        """What shows that the batches of the loader built at the site go to an accelerator; None if nothing does."""
        loader = self._ast_of(site.node)
        return self._loading.route(loader) if isinstance(loader, ast.Call) else None

    def loader_samples(self, site: Site) -> Samples:
        """What can be told of the samples that the loader built at the site reads."""
        loader = self._ast_of(site.node)
        assert isinstance(loader, ast.Call)
        return self._loading.samples(loader, self._function(site))

    def named(self, name: str, site: Site) -> Value:
        """What a plain name is at the end of the function around the site: UNKNOWN if the function cannot see it."""
        frame = self._world.frame(self._function(site))
        value = frame.env.get(name)
        if value is None:
            value = self._world.free_name(frame, name)
        return UNKNOWN if value is None else value

    # -- flow ------------------------------------------------------------------------------------------------------

    def uses(self, name: str, site: Site, heat: Heat) -> flow.NameUses:
        """Where `name` occurs in the function around the site, related to the loop of `heat`."""
        return flow.uses_of(name, self._function(site), heat.loop, self._index, self._heat, self._source)

    def rebinds(self, heat: Heat, name: str) -> bool:
        """Whether the loop of `heat` binds the name."""
        return heat.loop is not None and name in flow.names_bound_in(heat.loop)

    def names_of_loop(self, heat: Heat) -> set[str]:
        """The names and paths (`self.x`) that the loop of `heat` binds, its targets included."""
        return set() if heat.loop is None else flow.names_bound_in(heat.loop) | writes.paths_bound_in(heat.loop)

    def always_in_loop(self, site: Site, heat: Heat) -> bool:
        """Whether the site's statement stands directly in the body of the loop of `heat`."""
        place = self._index.places[self._statement_of[id(site.node)]]
        return heat.loop is not None and place.parent is heat.loop and place.field == "body"

    def guarded_by_try(self, heat: Heat) -> bool:
        """Whether the loop of `heat` stands where its function may catch an exception: a `try`, a `suppress()`."""
        current: ast.stmt | None = heat.loop
        while current is not None:
            current = self._index.places[current].parent
            if type(current).__name__ in ("Try", "TryStar"):
                return True
            if isinstance(current, (ast.With, ast.AsyncWith)) and any(flow.catches(item) for item in current.items):
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
        row = flow.last_row_of_body(source, loop.end_lineno, len(indent))
        last = row >= len(source.line_starts)
        place = len(source.utf8) if last else source.line_starts[row]
        newline = source.newline
        content = f"{newline}{indent}{line}" if last and place >= end else f"{indent}{line}{newline}"
        return Edit(place, place, content.encode())

    def insert_before(self, heat: Heat, line: str) -> Edit | None:
        """Put a line of code directly before the loop of `heat`, at the loop's indentation."""
        loop = heat.loop
        if loop is None:
            return None
        source = self._source
        indent = source.line(loop.lineno)[: loop.col_offset]
        if indent.strip():
            return None
        place = source.line_starts[loop.lineno - 1]
        return Edit(place, place, f"{indent}{line}{source.newline}".encode())

    def lift(self, site: Site, heat: Heat) -> tuple[Edit, ...] | None:
        """Move the site's one-row statement in front of the loop of `heat`; None if that leaves the body empty."""
        statement = self._statement_of[id(site.node)]
        rows = self.statement_lines(site)
        if rows is None or rows[0] != rows[1] or not self.always_in_loop(site, heat) or not site.tree.lossless:
            return None
        if len(self._index.places[statement].block) < 2:
            return None
        source = self._source
        start = source.line_starts[rows[0] - 1]
        end = source.line_starts[rows[0]] if rows[0] < len(source.line_starts) else len(source.utf8)
        inserted = self.insert_before(heat, source.utf8[start:end].decode().strip())
        return None if inserted is None else (inserted, Edit(start, end, b""))

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
        """Whether any of the texts occurs in the file's text."""
        return any(word in self._source.text for word in words)

    @property
    def accelerator_in_sight(self) -> bool:
        """Whether the file speaks of an accelerator or of a framework that uses one."""
        return not self._world.cpu_only


def _is_repeated_read(record: CallRecord) -> bool:
    return _is_scalar_read(record) and any(
        isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)) and _holds(node, record.call)
        for node in _own_expressions(record.statement)
    )


def _holds(outer: ast.expr, inner: ast.expr) -> bool:
    return any(node is inner for node in ast.walk(outer))


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
