"""A training script as a whole: its block, its loop over epochs, and where to insert lines."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit
from torchperf_lint.idioms.placing import has_rows_to_itself
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import Block, FunctionInfo, Place
    from torchperf_lint.syntax.source import Source

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Script(NamedTuple):
    """A block that builds what it trains: the body of a function, of `if __name__ == "__main__":`, or of the file.

    `epochs` is its only loop over epochs that uses the given loader, `epoch` the name of the loop's counter.
    """

    source: Source
    block: Block
    epochs: ast.For
    epoch: str

    def begin(self, *lines: str) -> Edit:
        """Insert lines before everything else in the block."""
        return self._before(self._first(), lines)

    def end(self, line: str) -> Edit:
        """Insert a line at the end of the block, before its `return`."""
        last = self.block[-1]
        if isinstance(last, ast.Return):
            return self._before(last, (line,))
        row = last.end_lineno or last.lineno
        text = f"{self._indent(self._first())}{line}"
        if row < len(self.source.line_starts):
            place = self.source.line_starts[row]
            return Edit(place, place, f"{text}{self.source.newline}".encode())
        place = len(self.source.utf8)
        return Edit(place, place, f"{self.source.newline}{text}".encode())

    def in_each_epoch(self, line: str) -> Edit:
        """Insert a line at the start of each epoch."""
        return self._before(self.epochs.body[0], (line,))

    def _first(self) -> ast.stmt:
        return next(statement for statement in self.block if not _is_preface(statement))

    def _indent(self, statement: ast.stmt) -> str:
        return self.source.line(statement.lineno)[: statement.col_offset]

    def _before(self, statement: ast.stmt, lines: tuple[str, ...]) -> Edit:
        indent, place = self._indent(statement), self.source.line_starts[statement.lineno - 1]
        return Edit(place, place, "".join(f"{indent}{line}{self.source.newline}" for line in lines).encode())


def script_around(model: Model, site: Site, loader: str) -> Script | None:
    """The script around the site, which runs once and trains from the loader of that name.

    None for other shapes: nothing may leave the block or its loop over epochs early, each of their statements must
    have its own lines, and no function may divide a training sum by the number of all samples.
    """
    source, place = model.source, model.place(site.node)
    if place.function is not model.top:
        called = model.calls_named(place.function.name)
        if len(called) != 1 or called[0].function is not model.top:
            return None
    block = _block_around(place)
    if any(map(_averages_over_set, model.functions)):
        return None
    used = [node for node in subtree(ast.Module(block, [])) if isinstance(node, ast.Name) and node.id == loader]
    loops = [each for each in block if isinstance(each, ast.For) and any(_within(node, each) for node in used)]
    if len(loops) != 1 or not _counts_epochs(loops[0]) or _leaves_early(block):
        return None
    epochs = loops[0]
    others = [node for node in used if isinstance(node.ctx, ast.Load) and not _within(node, epochs)]
    sizes = {id(argument) for call in _lengths(block) for argument in call.args}
    assert isinstance(epochs.target, ast.Name)
    if any(id(node) not in sizes for node in others) or not any(not _is_preface(each) for each in block):
        return None
    if not all(has_rows_to_itself(each, source) for each in (*block, *epochs.body)):
        return None
    return Script(source, block, epochs, epochs.target.id)


def always_runs(model: Model, site: Site, but_for: str) -> bool:
    """Whether the site runs whenever its script does, except for tests on `but_for()`."""
    return all(_runs(place, but_for) for place in _in_script(model.place(site.node)))


def _runs(place: Place, but_for: str) -> bool:
    """Whether nothing directly around the statement decides whether it runs, except for tests on `but_for()`."""
    parent = place.parent
    if parent is None or _is_main_guard(parent):
        return True
    if not isinstance(parent, ast.If) or place.field != "body":
        return False
    asks = [node for node in subtree(parent.test) if isinstance(node, ast.Call) and dotted(node.func) is not None]
    return len(asks) == 1 and last_name(asks[0].func) == but_for and isinstance(parent.test, ast.Compare)


def _in_script(place: Place) -> Iterator[Place]:
    """The places of the statement, and of those around it within its function or `if __name__ == "__main__":`."""
    for each in place.outwards():
        yield each
        if each.parent is not None and _is_main_guard(each.parent):
            return


def _block_around(place: Place) -> Block:
    return list(_in_script(place))[-1].block


def _is_main_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and not statement.orelse and "__name__" in ast.unparse(statement.test)


def _is_preface(statement: ast.stmt) -> bool:
    """A docstring, an import, a definition."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, _DEFINITIONS)


def _within(node: ast.expr, statement: ast.stmt) -> bool:
    return statement.lineno <= node.lineno <= (statement.end_lineno or statement.lineno)


def _counts_epochs(loop: ast.For) -> bool:
    """`for epoch in range(...)`, perhaps in a progress bar."""
    counted = any(isinstance(node, ast.Name) and node.id in ("range", "trange") for node in subtree(loop.iter))
    return counted and isinstance(loop.target, ast.Name) and loop.target.id != "_" and not loop.orelse


def _leaves_early(block: Block) -> bool:
    """Whether a `return` other than the last statement, a `break` or an exception may end the script early."""
    inner = [node for statement in block for node in subtree(statement) if node is not block[-1]]
    return any(isinstance(node, (ast.Return, ast.Break, ast.Raise, ast.Try, ast.Yield)) for node in inner)


def _lengths(block: Block) -> list[ast.Call]:
    calls = [node for statement in block for node in subtree(statement) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "len"]


def _averages_over_set(function: FunctionInfo) -> bool:
    """Whether a function that trains divides by a dataset's length: `total / len(loader.dataset)`."""
    if not any(last_name(record.call.func) == "backward" for record in function.calls_made):
        return False
    divisors = [
        node.right if isinstance(node, ast.BinOp) else node.value
        for node in function.nodes
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div)
    ]
    return any("len(" in text and "set" in text for text in map(ast.unparse, divisors))
