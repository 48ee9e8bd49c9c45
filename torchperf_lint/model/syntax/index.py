"""The index of a file: functions, classes, aliases, calls by name, statements' places.

Its tables tell `reads` what is looked up in them. Who has a node of the file, or one of its functions or classes, has
come to it by such a lookup, which has read the whole unit around it (`units`).
"""

from __future__ import annotations

import ast
import functools
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchperf_lint.model.syntax import names, reads
from torchperf_lint.model.syntax.names import bindings, dotted, given_to, last_name, names_in
from torchperf_lint.model.syntax.reads import BoundAtTop, ByName, ByNode, Entered, Entries, Named, Tables
from torchperf_lint.syntax.tree import TakenApart, children, subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.syntax.tree import Comprehension

__all__ = ["AttributeStore", "Block", "CallRecord", "ClassInfo", "FunctionInfo", "FunctionNode", "Index", "Place"]
__all__ += ["dotted", "given_to", "last_name", "names_in"]
_Answer = TypeVar("_Answer")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Block = list[ast.stmt]


class Place(NamedTuple):
    """The place of a statement: its parent statement (None at the top of a function), the block and its index."""

    function: FunctionInfo
    parent: ast.stmt | None
    field: str  # of the parent: body, orelse, finalbody, handlers (for a handler's body)
    in_block: Block
    position: int

    @property
    def block(self) -> Block:
        """The block; at the top of a module, this reads the whole file, and in a class the whole class."""
        if self.function.outer is None:
            if self.parent is None:
                self.function.index.reads.whole()
            elif isinstance(self.parent, ast.ClassDef):
                self.function.index.info_of[self.parent].node  # noqa: B018
        return self.in_block

    @property
    def block_id(self) -> int:
        """What tells the block from others of the file, as long as its tree is there."""
        return id(self.in_block)

    @property
    def statement(self) -> ast.stmt:
        """The statement itself."""
        return self.in_block[self.position]

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
    def is_module(self) -> bool:
        """Whether this is the module itself."""
        return False

    @property
    def block(self) -> Block:
        """The body for who reads only some statements of it, and has said which."""
        return self.body

    def parent_of(self, node: ast.AST) -> ast.AST | None:
        """The parent of a node."""
        return self.parents.get(node)

    @property
    def place(self) -> tuple[int, str]:
        """Its row and name, unique in its file: plain data that outlasts the tree."""
        assert not isinstance(self.node, ast.Module)
        return self.node.lineno, f"{self.name} {self.node.col_offset}" if self.is_lambda else self.name

    @property
    def row(self) -> int:
        """The row where it begins; not of a module."""
        assert not isinstance(self.node, ast.Module)
        return self.node.lineno

    @property
    def shown_name(self) -> str:
        """Its name, as a message says it; of a lambda, its code."""
        return f"`{names.brief(self.node) if self.is_lambda else self.name}`"

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
        return self.node.decorator_list if isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef)) else []

    @property
    def arguments(self) -> ast.arguments | None:
        """The parameters, or None for the module."""
        return None if isinstance(self.node, ast.Module) else self.node.args

    @property
    def parameter_names(self) -> list[str]:
        """All parameters in order: positional, `*args`, keyword-only, `**kwargs`."""
        if self._parameter_names is None:
            self._parameter_names = names.parameters_of(self.arguments)
        return self._parameter_names

    @property
    def defaults(self) -> dict[str, ast.expr]:
        """Parameter -> its default, for those that have one."""
        if self._defaults is None:
            self._defaults = names.defaults_of(self.arguments)
        return self._defaults

    @property
    def is_static(self) -> bool:
        """Whether it is a staticmethod."""
        if self._is_static is None:
            self._is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in self.decorators)
        return self._is_static

    @property
    def is_abstract(self) -> bool:
        """Whether the body only requires subclasses to override it: `pass`, `...`, `raise NotImplementedError`."""
        return names.does_nothing(self.body)

    @property
    def self_name(self) -> str | None:
        """The name of a method's first parameter."""
        arguments = None if self.cls is None else self.arguments
        if arguments is None or self.is_static:
            return None
        positional = arguments.posonlyargs or arguments.args
        return positional[0].arg if positional else None


_NAMELESS = {ast.Module: "<module>", ast.Lambda: "<lambda>"}


class ModuleInfo(FunctionInfo):
    """The module itself: its tree and what is made of it are the whole file, and who takes them has read it."""

    __slots__ = ()

    def _reading(name: str) -> Any:  # type: ignore[misc]  # noqa: N805
        slot: Any = vars(FunctionInfo)[name]

        def get(self: FunctionInfo) -> Any:
            self.index.reads.whole()
            return slot.__get__(self, ModuleInfo)

        return property(get, slot.__set__ if hasattr(slot, "__set__") else None, getattr(slot, "__delete__", None))

    node = _reading("node")
    body = _reading("body")
    calls_made = _reading("calls_made")
    statements = _reading("statements")

    @property
    def is_module(self) -> bool:
        """Whether this is the module itself."""
        return True

    @property
    def block(self) -> Block:
        """The body for who reads only some statements of it, and has said which."""
        return self.index.tree.body

    def parent_of(self, node: ast.AST) -> ast.AST | None:
        """The parent of a node."""
        return self.index.reads.unheard(lambda: self.parents).get(node)

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the file, in the order of `ast.walk`."""
        self.index.reads.whole()
        return self.index.note("nodes", lambda: self.index.reads.unheard(lambda: tuple(subtree(self.index.tree))))

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Node -> its parent, for all nodes of the file."""
        self.index.reads.whole()
        return self.index.note("parents", lambda: {child: node for node in self.nodes for child in children(node)})

    @property
    def place(self) -> tuple[int, str]:
        """Its row and name."""
        return 0, self.name

    @property
    def decorators(self) -> list[ast.expr]:
        """None."""
        return []

    @property
    def arguments(self) -> None:
        """None."""


class AttributeStore(NamedTuple):
    """`self.x = value` in a method, or `x = value` in a class body; `target` is the stored-to node."""

    function: FunctionInfo
    target: ast.expr
    annotation: ast.expr | None = None


class ClassInfo:
    """A class with its methods and the places that set its attributes; `scope` is the enclosing function or module.

    `head` is its node, for who reads no methods of it that are units of their own.
    """

    __slots__ = ("attributes", "head", "is_split", "methods", "name", "scope")

    def __init__(self, head: ast.ClassDef, scope: FunctionInfo, *, is_split: bool = False) -> None:
        """`is_split`: methods of it are units of their own."""
        self.head, self.name = head, head.name
        self.scope = scope
        self.is_split = is_split
        members = functools.partial(reads.members, scope.index, self.name, is_split)
        self.methods: dict[str, FunctionInfo] = members(reads.METHODS)
        self.attributes: dict[str, list[AttributeStore]] = members(reads.ATTRIBUTES)

    @property
    def row(self) -> int:
        """The row where it begins."""
        return self.head.lineno

    @property
    def place(self) -> tuple[int, str]:
        """Its row and name."""
        return self.row, self.name

    @property
    def decorators(self) -> list[ast.expr]:
        """The decorator expressions."""
        return self.head.decorator_list

    def sum_up(self, question: object, answer: Callable[[], _Answer]) -> _Answer:
        """The memoized result of a query about the class's text alone, as by `Tables.sum_up`."""
        return self.index.sum_up((question, self), answer)

    @property
    def node(self) -> ast.ClassDef:
        """Its node, of which all is read."""
        if self.is_split:
            self.index.reads.enters(reads.MEMBERS, self.name)
        return self.head

    @property
    def index(self) -> Index:
        """The index of its file."""
        return self.scope.index

    @property
    def path(self) -> str:
        """The path of its file, as evidence shows it."""
        return self.index.path


class Index(Tables):
    """The results of one pass over the tree. Rules never see it, only the model's packages do."""

    def __init__(self, tree: ast.Module, path: str = "") -> None:
        """`path` is the file's path as the user sees it."""
        self.path = path
        super().__init__()
        self.tree = tree  # for tables of the whole file, whose lookups are noted
        self.module = ModuleInfo(tree, None, None, self)
        self.all_functions, self.all_classes = list[FunctionInfo]([self.module]), list[ClassInfo]()
        self.calls: ByName[list[CallRecord]] = Entries("calls")
        self.handed: ByName[list[CallRecord]] = Entries("handed")  # name -> the calls that get it
        self.held = Named("held")  # names in displays and comprehensions, in `a or b` and in `return a`
        self.defaults: ByName[list[tuple[FunctionInfo, str]]] = Entries("defaults")  # name -> parameters
        self.places: ByNode[ast.stmt, Place] = ByNode()
        self.info_of: ByNode[ast.AST, FunctionInfo | ClassInfo] = ByNode()
        self.all_loops: list[tuple[ast.For | ast.AsyncFor | ast.While, FunctionInfo]] = []
        self.all_augmented: list[tuple[ast.AugAssign, FunctionInfo]] = []
        self.texts: ByNode[ast.stmt, None] = ByNode()  # the statements that format an f-string, or a text by `%`
        self.lambdas: ByNode[ast.stmt, list[FunctionInfo]] = ByNode()  # a statement -> its lambdas, outer ones first
        self.lambdas_given: ByNode[ast.expr, CallRecord] = ByNode()  # a lambda -> the call whose argument it is
        self.comprehensions: ByNode[ast.stmt, list[Comprehension]] = ByNode()  # a statement -> its comprehensions
        self.stores: ByName[list[AttributeStore]] = Entries("stores")  # attribute -> where it is set, but `self.x`
        self.aliases: ByName[set[str]] = Entries("aliases")
        self.rebound_elsewhere = Named("rebound_elsewhere")  # names that some function declares global or nonlocal
        self.entered: dict[int, Entered] = {}  # by the first statement of a unit
        self._bound: dict[FunctionInfo, list[str]] = {}
        by_node = self.places, self.info_of, self.texts, self.lambdas, self.lambdas_given, self.comprehensions
        self._tables += [*(getattr(self, table) for table in reads.ENTRIES), *by_node]
        self.tell(self.reads)

    @property
    def functions(self) -> list[FunctionInfo]:
        """All functions, the module first."""
        self.reads.whole()
        return self.all_functions

    @property
    def classes(self) -> list[ClassInfo]:
        """All classes."""
        self.reads.whole()
        return self.all_classes

    def classes_with(self, name: str) -> list[ClassInfo]:
        """All classes, to look for methods or attributes of this name."""
        self.reads.mentions(name)
        return self.all_classes

    @property
    def loops(self) -> list[tuple[ast.For | ast.AsyncFor | ast.While, FunctionInfo]]:
        """All loops, each with its function."""
        self.reads.whole()
        return self.all_loops

    @property
    def augmented(self) -> list[tuple[ast.AugAssign, FunctionInfo]]:
        """All augmented assignments, each with its function."""
        self.reads.whole()
        return self.all_augmented

    def take_apart(self) -> None:
        """Drop the tree at once; no query is allowed afterwards. The garbage collector alone would take far longer."""
        for function in (*self.all_functions, *(each for found in self.lambdas.values() for each in found)):
            function.take_apart()
        for cls in self.all_classes:
            cls.methods.clear()
            cls.attributes.clear()
            del cls.head
        for noted, _ in self._noted.values():
            if isinstance(noted, TakenApart):
                noted.take_apart()
        vars(self).clear()

    def calls_named(self, name: str) -> list[CallRecord]:
        """Calls whose function ends in `name`, or in a name that the file binds to something of that name."""
        names = (name, *sorted(self.aliases.get(name, ())))
        return [record for each in names for record in self.calls.get(each, ())]

    def also_called(self, name: str) -> set[str]:
        """The other names that the file gives to what has this name."""
        return set(self.aliases.get(name, ()))

    def bound_names(self, function: FunctionInfo) -> list[str]:
        """The names that the function binds (for the module: at its top level), one entry per binding."""
        if function.is_module:
            heard = self.reads
            return self.note("bound", lambda: heard.unheard(lambda: BoundAtTop(bindings(self.tree.body), self)))
        known = self._bound.get(function)
        if known is None:
            known = self._bound[function] = [*function.parameter_names, *bindings(function.body)]
        return known
