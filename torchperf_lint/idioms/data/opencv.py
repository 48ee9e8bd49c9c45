"""OpenCV in loader workers: which of its calls run there, and where to limit them to one thread."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because, Edit
from torchperf_lint.idioms.compute.settings import environment_set
from torchperf_lint.idioms.data.in_workers import functions_of_workers
from torchperf_lint.idioms.data.workers import workers_of
from torchperf_lint.idioms.placing import beside, has_rows_to_itself

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo


class InWorkers(NamedTuple):
    """A call that workers make, the number of workers, and the function of this file that each worker starts with."""

    site: Site
    because: tuple[Because, ...]
    workers: int
    starter: FunctionInfo | None


def in_workers(model: Model, sites: Sequence[Site]) -> InWorkers | None:
    """The first of the calls that workers of a loader make, in this file or a neighbour."""
    by_function: dict[FunctionInfo, Site] = {}
    for site in sites:
        by_function.setdefault(model.function_of(site), site)
    for there in model.with_neighbours:
        if there is not model and not there.mentions("DataLoader"):
            continue
        if _is_told_one_thread(there):
            return None
        for loader in there.loaders():
            workers = workers_of(there, loader)
            if workers is None or there.in_test(loader):
                continue
            run = [(by_function[each], way) for each, way in functions_of_workers(there, loader) if each in by_function]
            if run:
                first, way = min(run, key=lambda pair: pair[0].start)
                because = (Because(loader.rows[0], "the loader has workers", there.path), *way)
                return InWorkers(first, because, workers.number, _starter(model, there, loader))
    return None


def _is_told_one_thread(model: Model) -> bool:
    """Whether the file limits OpenCV to one thread by the environment, or by a training library's option."""
    set_to = (value for _, _, value in environment_set(model, "OPENCV_FOR_THREADS_NUM"))
    return any(value in ("0", "1") for value in set_to) or model.code.speaks_of("opencv_num_threads")


def _starter(model: Model, there: Model, loader: Site) -> FunctionInfo | None:
    """The loader's `worker_init_fn`, if it is a function of this file's top level."""
    call = there.ast_of(loader.node)
    named = [each.value for each in call.keywords if each.arg == "worker_init_fn"] if isinstance(call, ast.Call) else []
    function = there.value_in(there.function_of(loader), named[0]).function if named else None
    return function if function is not None and function.outer is model.top else None


def without_threads(model: Model, used: InWorkers) -> Edit | None:
    """Insert `cv2.setNumThreads(0)` where the workers start, else after the file's imports."""
    module = model.top
    imports = [each for each in module.body if isinstance(each, (ast.Import, ast.ImportFrom))]
    name = next(_names_of_opencv(imports), None)
    if name is None or not model.bound_once(module, name):
        return None
    line = f"{name}.setNumThreads(0)"
    if used.starter is not None:
        body = used.starter.body
        is_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        if name in used.starter.bound_names:
            return None
        return beside(model, body[0], (line,), behind=is_text)
    return _behind_imports(model, name, line)


def _names_of_opencv(imports: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in imports:
        if isinstance(statement, ast.Import):
            yield from (alias.asname or alias.name for alias in statement.names if alias.name == "cv2")


def _behind_imports(model: Model, name: str, line: str) -> Edit | None:
    """Insert the line, after an empty one, after the imports that follow that of `name`."""
    body, source = model.top.body, model.source
    last: ast.stmt | None = None
    for statement in body:
        is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
        if last is not None and not is_import:
            break
        if last is not None or name in tuple(_names_of_opencv([statement])):
            last = statement
    if last is None or not has_rows_to_itself(last, source):
        return None
    row = (last.end_lineno or last.lineno) + 1
    if row > len(source.line_starts):
        return None
    place = source.line_starts[row - 1]
    return Edit(place, place, f"{source.newline}{line}{source.newline}".encode())
