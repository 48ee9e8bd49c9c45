"""Functions of a few lines that a fix writes above the file's definitions, and that other fixes of the file share."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms import placing
from torchperf_lint.syntax import edits

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo


class Helper(NamedTuple):
    """The function's name and its lines, in which `{torch}` stands for the name of torch in the file."""

    name: str
    lines: tuple[str, ...]

    def text(self, model: Model, torch: str) -> str:
        """The function as the file would have it."""
        whole = model.source.newline.join(each.format(torch=torch) for each in self.lines)
        return whole.replace("    ", model.source.indent)


SENT = Helper(
    "_sent",
    (
        "def _sent(tensor, device: {torch}.device):",
        '    """The tensor on the device; a GPU copies it from pinned memory, and nobody waits for that."""',
        "    if not {torch}.jit.is_scripting():",
        '        compiler = getattr({torch}, "compiler", None)',
        '        asked = hasattr(compiler, "is_compiling")',
        '        compiled = compiler.is_compiling() if asked else hasattr({torch}, "compile")',
        "        eager = not (compiled or {torch}.jit.is_tracing()) and {torch}.cuda.is_initialized()",
        "        known = eager and type(tensor) is {torch}.Tensor and isinstance(device, (str, int, {torch}.device))",
        "        dense = known and tensor.is_cpu and tensor.layout == {torch}.strided",
        '        if dense and {torch}.device(device).type == "cuda":',
        "            pinned = {torch}.empty_like(tensor, pin_memory=True).copy_(tensor)",
        "            return pinned.to(device, non_blocking=True)",
        "    return tensor.to(device)",
    ),
)
"""What copies a tensor to a device without a wait; rules do not look at the copies that it makes itself.

Whatever is in doubt takes the plain path: subclasses of tensors, as a copy may be of another class; None, dtypes and
tensors in the place of a device; a process without CUDA, where pinning is another error; graphs that are traced,
exported or compiled, also by torch 2.0, whose compiler does not say that it runs. TorchScript compiles but that path.
"""

DEFERRED = Helper(
    "_deferred",
    (
        "def _deferred(number):",
        '    """A GPU\'s float as a double that stays there, to be summed up; any other number at once."""',
        "    known = type(number) in ({torch}.Tensor, {torch}.nn.Parameter) and number.is_cuda",
        "    if known and number.is_floating_point() and number.numel() == 1:",
        "        return number.detach().reshape(()).double()",
        "    return number.item()",
    ),
)
"""What takes the place of `x.item()` in a sum that is read later.

A double on the device is the float that `item()` would have given, and sums and products of doubles round as those of
Python's floats do. Whole numbers, which become Python's, and numbers of other devices, which may lack float64, are read
at once.
"""

SETTLED = Helper(
    "_settled",
    (
        "def _settled(number):",
        '    """The number that a tensor of one element holds; any other number as it is."""',
        "    return number.item() if isinstance(number, {torch}.Tensor) else number",
    ),
)
"""What reads a sum of such numbers: one to which nothing was added is still the number that it began with."""

ALL_SETTLED = Helper(
    "_all_settled",
    (
        "def _all_settled(numbers):",
        '    """The numbers that a list holds, as tensors or as they are; tensors of one kind are read at once."""',
        "    kinds = {{(each.dtype, each.device) if isinstance(each, {torch}.Tensor) else None for each in numbers}}",
        "    if len(kinds) == 1 and None not in kinds:",
        "        return {torch}.cat([each.reshape(1) for each in numbers]).tolist()",
        "    return [each.item() if isinstance(each, {torch}.Tensor) else each for each in numbers]",
    ),
)
"""What reads a list of them, each as the number that `item()` gives: `tolist` of one dtype does the same."""

ITEMS = Helper(
    "_items",
    (
        "def _items(tensors):",
        '    """`item()` of each tensor of a list or dict: one read for all, where they are of one kind."""',
        "    if isinstance(tensors, dict):",
        "        return dict(zip(tensors, _items(list(tensors.values()))))",
        "    plain = all(type(each) in ({torch}.Tensor, {torch}.nn.Parameter) for each in tensors)",
        "    if plain and not any(each.layout != {torch}.strided or each.is_quantized for each in tensors):",
        "        if len({{(each.numel(), each.dtype, each.device) for each in tensors}}) == 1 == tensors[0].numel():",
        "            return {torch}.cat([each.detach().reshape(1) for each in tensors]).tolist()",
        "    return [each.item() for each in tensors]",
    ),
)
"""What reads the tensors of a comprehension. What `tolist` would give otherwise, or not at all, is read one by one."""

MATCHES = Helper(
    "_matches",
    (
        "def _matches(first, second, mask):",
        '    """`(first[mask] == second[mask]).sum()`; for one shape, without asking how many are chosen."""',
        "    plain = all(type(each) is {torch}.Tensor for each in (first, second, mask))",
        "    plain = plain and mask.dtype == {torch}.bool",
        "    if plain and first.shape == second.shape == mask.shape and first.device == second.device == mask.device:",
        "        return ((first == second) & mask).sum()",
        "    return (first[mask] == second[mask]).sum()",
    ),
)
"""What counts the matches that a mask chooses: the same `int64` of the same device, whatever the elements are."""

STILL_TRUE = Helper(
    "_still_true",
    (
        "def _still_true(flag):",
        '    """Whether a flag is true; one on a GPU that was is asked again only if it was written to since."""',
        "    if type(flag) is not {torch}.Tensor or not flag.is_cuda or flag.is_inference():",
        "        return bool(flag)",
        "    now = id(flag), flag._version",
        '    if getattr(flag, "_true_at", None) != now and bool(flag):',
        "        flag._true_at = now",
        '    return getattr(flag, "_true_at", None) == now',
    ),
)
"""What asks a flag that is set once. Autograd counts the writes to a tensor, whoever makes them.

A copy of the flag is another object, and a flag that is false is asked each time.
"""

IS_SET = Helper(
    "_is_set",
    (
        "def _is_set(flag):",
        '    """Whether a flag is true; one on a GPU is asked again only if it was written to since."""',
        "    if type(flag) is not {torch}.Tensor or not flag.is_cuda or flag.is_inference():",
        "        return bool(flag)",
        "    now = id(flag), flag._version",
        '    if getattr(flag, "_told", (None,))[0] != now:',
        "        flag._told = now, bool(flag)",
        "    return flag._told[1]",
    ),
)
"""What asks a flag that a module is made with, and never writes to: only a loaded state changes it."""


def defined(model: Model, helper: Helper, torch: str, used: ast.stmt) -> tuple[Edit, ...] | None:
    """The edit that defines the function; none where this very one stands at the top of the file.

    None where the name has another meaning in the file, where it stands below, or where there is no room.
    """
    text = helper.text(model, torch)
    for statement in model.top.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == helper.name:
            is_above = statement.lineno < used.lineno
            return () if is_above and _has_text(model, statement, text) else None
    if model.code.names(helper.name):
        return None
    return edits.together(placing.above_definitions(model, text, {torch}, used))


FLAGS = (STILL_TRUE, IS_SET)
"""Those that ask a flag."""

READERS = (DEFERRED, SETTLED, ALL_SETTLED, ITEMS)
"""Those that read numbers, each only where it has to."""


def stands_in(model: Model, site: Site, helper: Helper) -> bool:
    """Whether the site is in such a function."""
    function: FunctionInfo = model.function_of(site)
    node = function.node
    if not isinstance(node, ast.FunctionDef) or node.name != helper.name:
        return False
    torch = model.name_of("torch", site)
    return torch is not None and _has_text(model, node, helper.text(model, torch))


def _has_text(model: Model, statement: ast.FunctionDef, text: str) -> bool:
    start = model.source.line_starts[statement.lineno - 1]
    return model.source.utf8[start:].decode().startswith(text)
