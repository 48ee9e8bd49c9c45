"""`pbar.set_postfix(loss=loss.item())` in every step: a display that waits for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import placing, surroundings
from torchperf_lint.idioms.conditions import under_a_value
from torchperf_lint.idioms.sync.ahead import all_read_ahead
from torchperf_lint.idioms.sync.bars import shown_now_and_then
from torchperf_lint.idioms.sync.helpers import display_names
from torchperf_lint.idioms.sync.reads import Sink, hot_reads, is_display, needed_at_once, shows
from torchperf_lint.idioms.sync.texts import hot_texts, tensors_in
from torchperf_lint.knowledge.loggers import DISPLAYS, LAZY_LOGGERS, LOGS_NUMBERS, TAKE_TEXT
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model, Site


@rule(
    code="TPL105",
    name="progress-display-sync",
    category=Category.SYNC,
    summary="a device value is printed, drawn or logged in every step",
    message="`{read}` waits for the device {where} to be {used}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    triggers=((*sorted(DISPLAYS), "wandb", "mlflow", 'f"', "f'", ".format(", ".log(", "logger", "writer"),),
)
def progress_display_sync(model: Model) -> Iterator[Finding]:
    """Reads, and bare tensors, that a display formats in every step; one finding per statement."""
    reported: set[tuple[int, int]] = set()
    reads: dict[int, list[HostRead]] = {}
    for read in hot_reads(model):
        if read.role is Sink.SHOWN:
            reads.setdefault(id(read.site.tree), []).append(read)
    for site, used, where, because in sorted(_shown(model), key=lambda item: item[0].start):
        if site.rows in reported:
            continue
        reported.add(site.rows)
        fields = {"read": model.brief(site.node), "where": where, "used": used}
        ahead = all_read_ahead(model, reads.get(id(site.tree), []))
        fix = ahead if isinstance(ahead, Fix) else shown_now_and_then(model, site) or _every_n_steps(model, site)
        yield Finding(site, because, fix, fields)


def _shown(model: Model) -> Iterator[tuple[Site, str, str, tuple[Because, ...]]]:
    for read in hot_reads(model):
        if read.role is Sink.SHOWN:
            yield read.site, _use(model, read.parent), read.hot_path.where, (*read.because, *read.hot_path.because)
    displays = model.method_or_function_calls(*sorted({*DISPLAYS, *display_names(model)} - TAKE_TEXT), "log", hot=True)
    for site in (*displays, *hot_texts(model)):
        hot_path = model.hot_path(site)
        if hot_path is None or under_a_value(model, site, hot_path):
            continue
        for tensor in tensors_in(model, _shown_parts(model, site)):
            because = model.on_device(tensor)
            shown = model.site(tensor)
            if because is not None and needed_at_once(model, shown) is None:
                yield shown, _use(model, site.node), hot_path.where, (*because, *hot_path.because)


def _shown_parts(model: Model, site: Site) -> list[cst.BaseExpression]:
    """The parts of a text or of a display's arguments that are formatted or recorded immediately."""
    call = site.node
    if not isinstance(call, cst.Call):
        return [call]
    name = shape.method_name(call) or ""
    if name == "log" and not _is_tracker(call):
        return []
    parts: list[cst.BaseExpression] = [item.value for item in call.args]
    if name in LAZY_LOGGERS:
        # `logger.info("%s", x)` formats only if the level is enabled; a preformatted string always costs.
        parts = [part for part in parts if not isinstance(part, (cst.Name, cst.Attribute, cst.Subscript))]
    return parts if is_display(model, call) or name == "format" else []


def _use(model: Model, taker: cst.CSTNode | None) -> str:
    """The value's use, in words: its display, or else the text that contains it."""
    display = _display_around(model, taker)
    if display is not None:
        return f"shown by `{model.text(display.func)}`"
    if isinstance(taker, cst.AugAssign):
        return f"shown in a display of `{model.text(taker.target)}`"
    if isinstance(taker, cst.Call):
        if isinstance(taker.func, cst.Attribute) and isinstance(taker.func.value, cst.SimpleString):
            return "put into a formatted string"
        if isinstance(taker.func, cst.Name):
            return f"turned into text by `{taker.func.value}`"
        return f"shown by `{model.text(taker.func)}`"
    is_f_string = isinstance(taker, (cst.FormattedString, cst.FormattedStringExpression))
    return f"put into {'an f-string' if is_f_string else 'a formatted string'}"


def _display_around(model: Model, node: cst.CSTNode | None) -> cst.Call | None:
    """The innermost display or logger in the statement that receives the value, or a text that contains it."""
    while node is not None and not isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.Lambda)):
        if isinstance(node, cst.Call) and shows(model, node):
            return node
        node = model.parent(node)
    return None


def _is_tracker(call: cst.Call) -> bool:
    """Whether `x.log(...)` belongs to an experiment tracker; a Lightning module's own `log` takes tensors."""
    owner = shape.receiver(call)
    return owner is not None and shape.dotted(owner) in LOGS_NUMBERS


def _every_n_steps(model: Model, site: Site) -> Fix | None:
    """Guard the display by a test of the loop's own counter."""
    counter = surroundings.step_counter(model, site)
    lines = placing.own_rows(model, site)
    if counter is None or lines is None or not _is_a_call_alone(model, site):
        return None
    indented = edits.put_under(site.tree, lines, f"if {counter} % 50 == 0:")
    return None if indented is None else Fix("show it every 50 steps", Safety.SHOWN, indented)


def _is_a_call_alone(model: Model, site: Site) -> bool:
    """Whether the statement is only the call: it binds nothing that other steps would miss."""
    node: cst.CSTNode | None = site.node
    while node is not None and not isinstance(node, cst.Expr):
        node = model.parent(node)
    line = None if node is None else model.parent(node)
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
