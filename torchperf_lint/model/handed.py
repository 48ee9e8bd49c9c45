"""To whom alone an object is handed: the calls that take it by a keyword, where no other use of it is in the file."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.index import CallRecord


def takers(model: Model, site: Site, keyword: str) -> list[CallRecord]:
    """The calls that are given what is made at the site as `keyword=`; none if it is used in any other way."""
    made, statement = model._ast_of(site.node), model._statement_of[id(site.node)]
    function = model._function(site)
    direct = [record for record in function.calls_made if _given(record.call, keyword) is made is not None]
    if direct:
        return direct
    is_named = isinstance(statement, ast.Assign) and statement.value is made and len(statement.targets) == 1
    target = statement.targets[0] if is_named and isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Name) or model._index.bound_names(function).count(target.id) != 1:
        return []
    tree = model._index.module.node
    loads = [
        node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == target.id and node is not target
    ]
    records = [each for calls in model._index.calls.values() for each in calls]
    found = [record for record in records if _given(record.call, keyword) in loads]
    return found if len(found) == len(loads) else []


def handed_only_to(model: Model, site: Site, keyword: str, refs: Collection[str], without: str) -> bool:
    """Whether only calls of these library objects get what is made at the site, none with the keyword `without`."""
    records = takers(model, site, keyword)
    called = [model._world.frame_value(record.function, record.call.func).ref for record in records]
    plain = not any(each.arg in (without, None) for record in records for each in record.call.keywords)
    return bool(records) and plain and all(ref in refs for ref in called)


def _given(call: ast.Call, keyword: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == keyword), None)
