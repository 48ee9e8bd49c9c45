"""The index of a file: functions, classes, aliases, calls by name, statements' places."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchperf_lint.model.syntax.names import bindings, dotted, given_to, last_name, names_in
from torchperf_lint.syntax.tree import TakenApart, children, subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "AttributeStore",
    "Block",
    "CallRecord",
    "CallSite",
    "ClassInfo",
    "FunctionInfo",
    "FunctionNode",
    "ImplicitCall",
    "Index",
    "Place",
    "dotted",
    "given_to",
    "last_name",
    "names_in",
]
_Answer = TypeVar("_Answer")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Block = list[ast.stmt]


class Place(NamedTuple):
    """The place of a statement: its parent statement (None at the top of a function), the block and its index."""

    function: FunctionInfo
    parent: ast.stmt | None
    field: str  # of the parent: body, orelse, finalbody, handlers (for a handler's body)
    block: Block
    position: int

    @property
    def statement(self) -> ast.stmt:
        """The statement itself."""
        return self.block[self.position]

    @property
    def before(self) -> Block:
        """The statements of the block that come before it."""
        return self.block[: self.position]

    def outwards(self) -> Iterator[Place]:
        """The places of the statement and of those around it in its function, innermost first."""
        places, place = self.function.index.places, self
        while place.parent is not None:
            yield place
            place = places[place.parent]
        yield place

    def around(self) -> Iterator[ast.stmt]:
        """The statements around it in its function, innermost first."""
        places, parent = self.function.index.places, self.parent
        while parent is not None:
            yield parent
            parent = places[parent].parent

    def loops(self) -> list[ast.For | ast.AsyncFor | ast.While]:
        """The loops of its function whose body it is in, innermost first."""
        found, places, place = [], self.function.index.places, self
        while place.parent is not None:
            if place.field == "body" and isinstance(place.parent, (ast.For, ast.AsyncFor, ast.While)):
                found.append(place.parent)
            place = places[place.parent]
        return found

    def tests(self, loop: ast.stmt | None = None) -> Iterator[ast.expr]:
        """The tests of the branches around it, innermost first: within this loop, or else within its function."""
        for parent in itertools.takewhile(lambda parent: parent is not loop, self.around()):
            if isinstance(parent, ast.If):
                yield parent.test
            elif isinstance(parent, ast.Match):
                yield parent.subject


class CallRecord(NamedTuple):
    """A call and the statement that contains it."""

    call: ast.Call
    statement: ast.stmt
    function: FunctionInfo

    @property
    def node(self) -> ast.expr:
        """The expression that runs the callee."""
        return self.call

    @property
    def place(self) -> Place:
        """The place of the statement."""
        return self.function.place_of(self.statement)


class ImplicitCall(NamedTuple):
    """An expression that runs a function without calling it: `self.total` a property's getter, a `with` its object.

    `overridden` is the method that `self` has by the class around the expression, where the function only overrides it.
    """

    node: ast.expr
    statement: ast.stmt
    function: FunctionInfo
    overridden: FunctionInfo | None = None


CallSite = CallRecord | ImplicitCall


class FunctionInfo:
    """A function, a method, a lambda, or the module itself (`node` is then the Module); `index` is that of its file.

    A lambda has no statements of its own: its body's calls are those of the function around it.
    """

    __slots__ = (
        "_defaults",
        "_is_static",
        "_nodes",
        "_parameter_names",
        "_parents",
        "body",
        "calls_made",
        "cls",
        "index",
        "is_generator",
        "is_lambda",
        "name",
        "node",
        "outer",
        "statements",
    )

    def __init__(
        self,
        node: FunctionNode | ast.Lambda | ast.Module,
        cls: ClassInfo | None,
        outer: FunctionInfo | None,
        index: Index,
    ) -> None:
        self.node = node
        self.index = index
        self.name = _NAMELESS[type(node)] if isinstance(node, (ast.Module, ast.Lambda)) else node.name
        self.is_lambda = isinstance(node, ast.Lambda)
        self.cls = cls
        self.outer = outer
        self.body: Block = [] if isinstance(node, ast.Lambda) else node.body
        self.is_generator = False
        self.calls_made: list[CallRecord] = []
        self.statements: list[ast.stmt] = []  # its own, in source order; not those of nested functions and classes
        self._nodes: tuple[ast.AST, ...] | None = None
        self._parents: dict[ast.AST, ast.AST] | None = None
        self._parameter_names: list[str] | None = None
        self._defaults: dict[str, ast.expr] | None = None
        self._is_static: bool | None = None

    def take_apart(self) -> None:
        """Drop the tree; values may still refer to the function."""
        self.calls_made, self.statements = [], []
        self._nodes = self._parents = self._defaults = None
        del self.node, self.body

    @property
    def place(self) -> tuple[int, str]:
        """Its row and name, unique in its file: plain data that outlasts the tree."""
        if isinstance(self.node, ast.Module):
            return 0, self.name
        return self.node.lineno, f"{self.name} {self.node.col_offset}" if self.is_lambda else self.name

    @property
    def shown_name(self) -> str:
        """Its name, as a message says it."""
        return f"the lambda in row {self.node.lineno}" if self.is_lambda else f"`{self.name}`"  # type: ignore[union-attr]

    @property
    def path(self) -> str:
        """The path of its file, as evidence shows it."""
        return self.index.path

    @property
    def bound_names(self) -> list[str]:
        """The names that it binds, its parameters first; one entry per binding."""
        return self.index.bound_names(self)

    def place_of(self, statement: ast.stmt) -> Place:
        """The place of a statement of its file."""
        return self.index.places[statement]

    def note(self, question: object, answer: Callable[[], _Answer]) -> _Answer:
        """The memoized result of a query about the text of its file alone."""
        return self.index.note(question, answer)

    @property
    def called_as(self) -> str:
        """The last name in calls of it: for a constructor, the name of its class."""
        return self.cls.name if self.cls is not None and self.name == "__init__" else self.name

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """The nodes of its tree, its own first, in the order of `ast.walk`; those of nested functions as well."""
        if self._nodes is None:
            self._nodes = tuple(subtree(self.node))
        return self._nodes

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Node -> its parent, for all its nodes."""
        if self._parents is None:
            self._parents = {child: node for node in self.nodes for child in children(node)}
        return self._parents

    @property
    def decorators(self) -> list[ast.expr]:
        """The decorator expressions."""
        return [] if isinstance(self.node, (ast.Module, ast.Lambda)) else self.node.decorator_list

    @property
    def arguments(self) -> ast.arguments | None:
        """The parameters, or None for the module."""
        return None if isinstance(self.node, ast.Module) else self.node.args

    @property
    def parameter_names(self) -> list[str]:
        """All parameters in order: positional, `*args`, keyword-only, `**kwargs`."""
        if self._parameter_names is None:
            self._parameter_names = self._named_parameters()
        return self._parameter_names

    def _named_parameters(self) -> list[str]:
        arguments = self.arguments
        if arguments is None:
            return []
        named = [*arguments.posonlyargs, *arguments.args]
        if arguments.vararg:
            named.append(arguments.vararg)
        named += arguments.kwonlyargs
        if arguments.kwarg:
            named.append(arguments.kwarg)
        return [argument.arg for argument in named]

    @property
    def defaults(self) -> dict[str, ast.expr]:
        """Parameter -> its default, for those that have one."""
        if self._defaults is None:
            self._defaults = self._named_defaults()
        return self._defaults

    def _named_defaults(self) -> dict[str, ast.expr]:
        arguments = self.arguments
        if arguments is None:
            return {}
        positional = [*arguments.posonlyargs, *arguments.args]
        last = positional[len(positional) - len(arguments.defaults) :]
        found = dict(zip((each.arg for each in last), arguments.defaults, strict=True))
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if default is not None:
                found[argument.arg] = default
        return found

    @property
    def is_static(self) -> bool:
        """Whether it is a staticmethod."""
        if self._is_static is None:
            self._is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in self.decorators)
        return self._is_static

    @property
    def is_abstract(self) -> bool:
        """Whether the body only requires subclasses to override it: `pass`, `...`, `raise NotImplementedError`."""
        for statement in self.body:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_text and not isinstance(statement, (ast.Pass, ast.Raise)):
                return False
        return True

    @property
    def self_name(self) -> str | None:
        """The name of a method's first parameter."""
        arguments = self.arguments
        if self.cls is None or arguments is None or self.is_static:
            return None
        positional = [*arguments.posonlyargs, *arguments.args]
        return positional[0].arg if positional else None


_NAMELESS = {ast.Module: "<module>", ast.Lambda: "<lambda>"}


class AttributeStore(NamedTuple):
    """`self.x = value` in a method, or `x = value` in a class body; `target` is the stored-to node."""

    function: FunctionInfo
    target: ast.expr
    annotation: ast.expr | None = None


class ClassInfo:
    """A class with its methods and the places that set its attributes; `scope` is the enclosing function or module."""

    __slots__ = ("attributes", "methods", "name", "node", "scope")

    def __init__(self, node: ast.ClassDef, scope: FunctionInfo) -> None:
        self.node = node
        self.name = node.name
        self.scope = scope
        self.methods: dict[str, FunctionInfo] = {}
        self.attributes: dict[str, list[AttributeStore]] = {}

    @property
    def index(self) -> Index:
        """The index of its file."""
        return self.scope.index

    @property
    def path(self) -> str:
        """The path of its file, as evidence shows it."""
        return self.index.path


class Index:
    """The results of one pass over the tree. Rules never see it, only the model's packages do."""

    def __init__(self, tree: ast.Module, path: str = "") -> None:
        """`path` is the file's path as the user sees it."""
        self.path = path
        self.module = FunctionInfo(tree, None, None, self)
        self.functions, self.classes = [self.module], list[ClassInfo]()
        self.calls: dict[str, list[CallRecord]] = {}
        self.handed: dict[str, list[CallRecord]] = {}  # name -> the calls with something of that name as an argument
        self.held: set[str] = set()  # names in displays and comprehensions, in `a or b` and in `return a`
        self.defaults: dict[str, list[tuple[FunctionInfo, str]]] = {}  # name -> the parameters whose default it is
        self.places: dict[ast.stmt, Place] = {}
        self.info_of: dict[ast.AST, FunctionInfo | ClassInfo] = {}
        self.loops: list[tuple[ast.For | ast.AsyncFor | ast.While, FunctionInfo]] = []
        self.augmented: list[tuple[ast.AugAssign, FunctionInfo]] = []
        self.texts: dict[ast.stmt, None] = {}  # the statements that format an f-string, or a text by `%`
        self.lambdas: dict[ast.stmt, list[FunctionInfo]] = {}  # a statement -> the lambdas in it, outer ones first
        self.lambdas_given: dict[ast.expr, CallRecord] = {}  # a lambda -> the call whose argument it is
        self.aliases: dict[str, set[str]] = {}
        self._bound: dict[FunctionInfo, list[str]] = {}
        self._noted: dict[object, Any] = {}
        self._objects: dict[str, list[CallRecord]] | None = None
        self.rebound_elsewhere: set[str] = set()  # names that some function declares global or nonlocal

    def take_apart(self) -> None:
        """Drop the tree at once; no query is allowed afterwards. The garbage collector alone would take far longer."""
        for function in (*self.functions, *(each for found in self.lambdas.values() for each in found)):
            function.take_apart()
        for cls in self.classes:
            cls.methods.clear()
            cls.attributes.clear()
            del cls.node
        for noted in self._noted.values():
            if isinstance(noted, TakenApart):
                noted.take_apart()
        vars(self).clear()

    def calls_named(self, name: str) -> list[CallRecord]:
        """Calls whose function ends in `name`, or in a name that the file binds to something of that name."""
        found = list(self.calls.get(name, ()))
        for alias in sorted(self.aliases.get(name, ())):
            found += self.calls.get(alias, ())
        return found

    def lambda_around(self, node: ast.expr, statement: ast.stmt) -> FunctionInfo | None:
        """The innermost lambda of the statement whose body contains the expression."""
        lambdas = self.lambdas.get(statement)
        if lambdas is None:
            return None
        around = [each for each in lambdas if isinstance(each.node, ast.Lambda) and _is_inside(node, each.node.body)]
        return around[-1] if around else None

    def calls_of_objects(self, cls: str) -> list[CallRecord]:
        """Calls of an object of the class, from its creation: `f = Cls(...)`, `self.f = Cls(...)`, then `f(x)`."""
        if self._objects is None:
            self._objects = {}
            for record in self.calls.get("", ()):
                made = record.call.func
                if isinstance(made, ast.Call):
                    self._objects.setdefault(last_name(made.func) or "", []).append(record)
            for statement in self.places:
                if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                    made_by = last_name(statement.value.func)
                    names = [name for name in map(last_name, statement.targets) if name is not None]
                    if made_by is not None:
                        self._objects.setdefault(made_by, []).extend(r for n in names for r in self.calls.get(n, ()))
        return self._objects.get(cls, [])

    def also_called(self, name: str) -> set[str]:
        """The other names that the file gives to what has this name."""
        return self.aliases.get(name, set())

    def means_module_function(self, name: str, caller: FunctionInfo, function: FunctionInfo) -> bool:
        """Whether `name`, read in `caller`, can only mean this function of the module."""
        if function.outer is not self.module or self.bound_names(self.module).count(name) != 1:
            return False
        outer: FunctionInfo | None = caller
        while outer is not None and outer is not self.module:
            if name in self.bound_names(outer):
                return False
            outer = outer.outer
        return True

    def bound_names(self, function: FunctionInfo) -> list[str]:
        """The names that the function binds (for the module: at its top level), one entry per binding."""
        known = self._bound.get(function)
        if known is None:
            known = self._bound[function] = [*function.parameter_names, *bindings(function.body)]
        return known

    def note(self, question: object, answer: Callable[[], _Answer]) -> _Answer:
        """The memoized result of a query about the text alone."""
        if question not in self._noted:
            self._noted[question] = answer()
        return self._noted[question]  # type: ignore[no-any-return]


def _is_inside(node: ast.expr, other: ast.expr) -> bool:
    """Whether an expression is the other one or a part of it, in one file."""
    first, last = (other.lineno, other.col_offset), (other.end_lineno or 0, other.end_col_offset or 0)
    return first <= (node.lineno, node.col_offset) < last
