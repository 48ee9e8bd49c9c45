"""A subclass of an aggregator without the NaN check, for releases of torchmetrics that cannot turn the check off."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms import placing
from torchperf_lint.idioms.metrics.aggregators import keeps_default_types
from torchperf_lint.idioms.metrics.metric_calls import class_name
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.model import Model, Site, Value


class Metric(NamedTuple):
    """An aggregator, and the call that makes it."""

    site: Site
    value: Value


def subclassed(model: Model, metric: Metric, others: Sequence[Metric]) -> tuple[Edit, ...] | None:
    """Define a subclass without the check before all of `others`, and make the metric of it.

    All metrics of a class get the same definition. None if such a class differs between the releases that may run,
    if its base is unknown at the top of the file, or if some code may read the class's name.
    """
    kind, base = class_name(metric.value), _base(model, metric)
    text = _definition(model, kind, base) if base else None
    if base is None or text is None or _names_matter(model):
        return None
    alike = [each for each in others if class_name(each.value) == kind]
    if any(_base(model, each) != base for each in alike):
        return None
    first = min(alike, key=lambda each: each.site.start)
    defined: tuple[Edit, ...] | None = ()
    if not _stands_above(model, kind, text, first.site):
        if model.code.names(_name(kind)):
            return None
        needed = {base.partition(".")[0]} | ({"torch"} if "torch." in text else set())
        defined = edits.together(placing.at_module_level(model, first.site, text, needed))
    assert isinstance(metric.site.node, cst.Call)
    made = edits.replace(metric.site.tree, metric.site.node.func, _name(kind))
    return edits.together(defined, made)


def _name(kind: str) -> str:
    return f"Unchecked{kind}"


def _base(model: Model, metric: Metric) -> str | None:
    """The class as the call names it, if an import at the top of the file defines it."""
    assert isinstance(metric.site.node, cst.Call)
    path = shape.dotted(metric.site.node.func)
    root = (path or "").partition(".")[0]
    meanings = [
        (statement.module or "", alias.name) if isinstance(statement, ast.ImportFrom) else (alias.name, "")
        for statement in model.top.body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        for alias in statement.names
        if (alias.asname or alias.name.partition(".")[0]) == root
    ]
    wanted = class_name(metric.value) if path == root else None
    known = all(module.partition(".")[0] == "torchmetrics" and wanted in (None, name) for module, name in meanings)
    return path if meanings and known else None


def _definition(model: Model, kind: str, base: str) -> str | None:
    """The subclass: it casts as the release does, in a private method that torchmetrics calls for this."""
    target = model.target
    if kind not in torchmetrics_api.CASTS_ITSELF or not target.torchmetrics_is(torchmetrics_api.CASTS_WEIGHTS_TOO):
        return None
    if target.torchmetrics_is(torchmetrics_api.CASTS_TO_ITS_DTYPE):
        cast, dtype = "{}.to(self.dtype)", "self.dtype"
    elif target.torchmetrics_is(torchmetrics_api.CASTS_TO_FLOAT) or keeps_default_types(model):
        cast, dtype = "{}.float()", "torch.float32"
    else:
        return None
    body = [
        f"class {_name(kind)}({base}):",
        '    """Its updates do not test for NaN: the host would wait for the answer."""',
        "",
        "    def _cast_and_nan_check_input(self, x, weight=None):",
    ]
    if kind in torchmetrics_api.AVERAGES:  # both are tensors already
        body += [f"        return {cast.format('x')}, {cast.format('weight')}"]
    else:
        body += [
            "        if not isinstance(x, torch.Tensor):",
            f"            x = torch.as_tensor(x, dtype={dtype}, device=self.device)",
            f"        return {cast.format('x')}, weight",
        ]
    return model.source.newline.join(body).replace("    ", model.source.indent)


def _stands_above(model: Model, kind: str, text: str, site: Site) -> bool:
    """Whether this very class is defined already, before the metric is made."""
    for statement in model.top.body:
        if isinstance(statement, ast.ClassDef) and statement.name == _name(kind):
            start = model.source.line_starts[statement.lineno - 1]
            written = model.source.utf8[start:].decode()
            return written.startswith(text) and (statement.end_lineno or 0) < site.rows[0]
    return False


def _names_matter(model: Model) -> bool:
    """Whether code may read the class's own name: a collection names the metrics of a list by it."""
    reads = model.code.names(".__name__", ".__qualname__", ".__class__", "_get_name")
    return reads or model.code.calls_plainly("type") or model.code.speaks_of("MetricCollection")
