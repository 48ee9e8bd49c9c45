"""Contracts with frameworks: which functions they call for every batch, and which arguments are then on the device."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge import hooks, torchmetrics_api
from torchperf_lint.knowledge.accelerators import ACCELERATOR_STEMS, CPU_TUNING
from torchperf_lint.model.callgraph import calling, events, roles, sample_transforms
from torchperf_lint.model.domain.contracts import Contract
from torchperf_lint.model.domain.values import Device, Kind, Origin, Value
from torchperf_lint.model.syntax.index import dotted, last_name, names_in
from torchperf_lint.syntax.tree import own_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.code import Code
    from torchperf_lint.model.syntax.index import AttributeStore, CallRecord, ClassInfo, FunctionInfo

_PACKAGES = {
    "pytorch_lightning": "lightning.pytorch",
    "lightning": "lightning.pytorch",
    "lightning.pytorch": "lightning.pytorch",
    "lightning.pytorch.pytorch": "lightning.pytorch",  # undo it where `lightning` has become `lightning.pytorch`
    "lightning_fabric": "lightning.fabric",
    "lightning.fabric": "lightning.fabric",
    "lightning.pytorch.fabric": "lightning.fabric",
}

_PREFIXES = (
    ("pytorch_lightning.", "lightning.pytorch."),
    ("lightning.fabric.", "lightning.fabric."),
    ("lightning_fabric.", "lightning.fabric."),
    ("lightning.pytorch.pytorch.", "lightning.pytorch."),
    ("lightning.pytorch.fabric.", "lightning.fabric."),
    ("lightning.pytorch.", "lightning.pytorch."),
    ("lightning.", "lightning.pytorch."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.distributed.", "torch.utils.data."),
    ("torch.nn.parallel.data_parallel.", "torch.nn."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parameter.", "torch.nn."),
    ("torch._tensor.", "torch."),
)


_KNOWN_ROOTS = frozenset({*sys.stdlib_module_names, "torch", "torchmetrics", "numpy"})
_NO_MODULES = re.compile(r"Transform|\.transforms\.|Augment|Dataset|Sampler|Collat|Process|Tokenizer|Reader")
"""Qualified names of base classes whose subclasses have a `forward` that runs per sample on the host."""

_OF_MODULES = frozenset("timm kornia fairseq transformers diffusers mmcv mmengine mmdet mmseg e3nn dgl".split())
"""Libraries of modules that do not have torch in their names."""

_HELPS_NETWORKS = re.compile(r"\.(?:task_modules|trackers|data_preprocessors?)\.|DataPreprocessor$")

_NO_OPTIMIZERS = ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.")
_IN_HOOK_TABLES = frozenset[str]().union(*(table.hot for table in hooks.HOOK_TABLES))


def is_optimizer(refs: list[str]) -> bool:
    """Whether a class with these bases is a torch optimizer."""
    return any(
        ref.startswith("torch.optim.") and ref.rpartition(".")[2][:1].isupper() and not ref.startswith(_NO_OPTIMIZERS)
        for ref in refs
    )


def canonical(ref: str) -> str:
    """The canonical name of a library object that has several public paths."""
    if ref in _PACKAGES:
        return _PACKAGES[ref]
    for prefix, replacement in _PREFIXES:
        if ref.startswith(prefix):
            return replacement + ref[len(prefix) :]
    if ref.startswith("torch.nn.modules."):
        return "torch.nn." + ref.rpartition(".")[2]
    return ref


def star_import(root: str) -> dict[str, Value]:
    """The names that `from root import *` binds, as far as rules query them."""
    names = hooks.STAR_IMPORTS.get(canonical(root), "")
    return {name: Value(Kind.LIBRARY, ref=canonical(f"{root}.{name}")) for name in names.split()}


def speaks_of_accelerator(code: Code) -> bool:
    """Whether the file's code mentions an accelerator, or a framework that would use one."""
    return code.calls(".to") or code.speaks_of(*ACCELERATOR_STEMS)


def counts_steps_on_host(code: Code) -> bool:
    """Whether the file's optimizers keep their step counters in tensors, as torch's do: these stay on the host."""
    return code.names("step_t", "state_steps", "capturable", "_get_value")


def transforms_samples(code: Code) -> bool:
    """Whether the file's modules are a dataset's transforms, which run on the host: they handle PIL images."""
    return code.speaks_of("pil_image", "PILToTensor")


def trains_on_cpu(code: Code) -> bool:
    """Whether the file tunes its training for the CPU, whatever device names it uses."""
    return code.names(*CPU_TUNING)


def is_module(refs: list[str]) -> bool:
    """Whether a class with these bases is an nn.Module."""
    return any(
        ref.rpartition(".")[2] in hooks.MODULE_BASES or (ref.startswith("torch.nn.") and "functional" not in ref)
        for ref in refs
    )


def is_lightning_module(inference: ValueQuestions, cls: ClassInfo) -> bool:
    """Whether it is a LightningModule, or looks like one and has a base outside the program that is not torch's."""
    refs = inference.library_bases(cls)
    if any(ref.rpartition(".")[2] == "LightningModule" for ref in refs):
        return True
    shaped = {"training_step", "configure_optimizers"} <= set(cls.methods)
    return shaped and any(not ref.startswith("torch.") for ref in refs)


def contract_of(inference: ValueQuestions, function: FunctionInfo) -> Contract | None:
    """The contract under which a framework calls the function, or None."""
    cls = function.cls
    if cls is not None:
        contract = _method_contract(inference, function, cls)
        if contract is not None:
            return contract
    contract = _callback_contract(inference, function)
    if contract is None and not inference.cpu_only:
        contract = roles.contract(inference, function, cls)
    return contract


def _method_contract(inference: ValueQuestions, function: FunctionInfo, cls: ClassInfo) -> Contract | None:
    name = function.name
    refs = inference.library_bases(cls)
    if name in hooks.LIGHTNING_MODULE_HOOKS and is_lightning_module(inference, cls):
        first = frozenset(function.parameter_names[1:2])
        placed = first if name in hooks.LIGHTNING_STEPS else hooks.LIGHTNING_PLACED
        if name in hooks.LIGHTNING_BEFORE_TRANSFER:
            return Contract(True, f"Lightning calls `{name}` for every batch")
        says = f"Lightning calls `{name}` for every batch, with the batch on the device"
        return Contract(True, says, Device.LIKELY, tensors=placed, origin=Origin.BATCH)
    tables = [table for table in hooks.HOOK_TABLES if name in table.hot] if name in _IN_HOOK_TABLES else ()
    names = inference.base_names(cls) if tables else ()
    for table in tables:
        if name == "forward" and table.framework == "MMEngine" and is_module(refs):
            continue  # all its tensors are on the device, whatever their names
        if not table.bases and not _is_network(refs, names):
            continue
        if any(_is_a(ref, table) for ref in names):
            if name in hooks.LIGHTNING_BEFORE_TRANSFER:
                return Contract(True, f"{table.framework} calls `{name}` for every batch")
            if table.loaded:
                says = f"{table.framework} calls `{name}` for every batch"
                return Contract(True, says, tensors=table.loaded, origin=Origin.BATCH)
            return Contract(
                not events.are_rare(inference, cls, table),
                f"{table.framework} calls `{name}` for every batch",
                Device.LIKELY,
                tensors=table.placed,
                origin=Origin.BATCH,
                holder=table.holder,
                evaluates=table.evaluates,
            )
    if inference.cpu_only:
        return None
    runs_module = (
        is_module(refs) if name == "__call__" else name == "forward" and (is_module(refs) or _looks_like_module(refs))
    )
    if runs_module and not inference.transforms_samples and not sample_transforms.are(inference, cls):
        says = f"`{name}` runs for every batch, where the module lives"
        return Contract(True, says, Device.LIKELY, all_tensors=True)
    if name in ("forward", "backward") and "torch.autograd.Function" in refs:
        return Contract(True, f"autograd calls `{name}` for every batch", Device.LIKELY, all_tensors=True)
    given = _tensors_of_module(inference, function, refs) if name == "forward" else None
    if given is not None and not sample_transforms.are(inference, cls):
        says = f"`forward` runs for every batch if `{cls.name}` is a module, as its base class may be"
        return Contract(True, says, Device.LIKELY, tensors=given, is_likely=True)
    if name == torchmetrics_api.UPDATE and any(map(torchmetrics_api.metric_class, refs)):
        says = "a metric's `update` runs for every batch, on the model's predictions"
        return Contract(True, says, Device.LIKELY, tensors=torchmetrics_api.INPUTS, origin=Origin.BATCH)
    if name == "step" and (is_optimizer(refs) or any(ref.endswith(".Optimizer") for ref in refs)):
        # Step counters like those of torch's optimizers are tensors on the host.
        there = Device.UNKNOWN if inference.counts_steps_on_host else Device.LIKELY
        return Contract(True, "an optimizer's `step` runs for every batch, where the parameters are", there)
    return _process_contract(inference, function, cls)


def _process_contract(inference: ValueQuestions, function: FunctionInfo, cls: ClassInfo) -> Contract | None:
    """The contract of a method that a subclass of ignite's Engine passes to `super().__init__` as process function."""
    for record in calling.handed_over(inference, function, ("__init__",)):
        maker = record.function
        if maker.name != "__init__" or maker.cls is None:
            continue
        if any(name.rpartition(".")[2] == "Engine" for name in inference.base_names(maker.cls)):
            says = "ignite's Engine calls this method for every batch"
            return _processes(function, says)._replace(row=record.call.lineno, path=maker.index.path)
    return None


def _processes(function: FunctionInfo, says: str) -> Contract:
    """The contract of ignite's process functions: they get the engine, and a batch as the loader yields it."""
    given = function.parameter_names[function.self_name is not None :]
    return Contract(True, says, tensors=frozenset(given[1:2]))


def _by_annotation(inference: ValueQuestions, function: FunctionInfo) -> Contract | None:
    """The contract of `f(engine: Engine, batch)`: only a process function of ignite has these two parameters."""
    annotation = of_engine_and_batch(function)
    if annotation is None:
        return None
    engine = next(filter(None, (_engine(inference, name) for name in names_in(annotation))), None)
    if engine is None:
        return None
    says = "ignite's Engine calls a function of this and a batch for every batch"
    contract = _processes(function, says)
    cls = engine.cls
    return contract if cls is None else contract._replace(row=cls.node.lineno, path=cls.index.path)


def of_engine_and_batch(function: FunctionInfo) -> ast.expr | None:
    """The annotation of the first of two parameters, if the second has the name of a batch."""
    arguments = function.arguments
    given = [] if arguments is None else arguments.args[function.self_name is not None :]
    is_so = len(given) == 2 and given[1].arg.startswith("batch") and not given[1].arg.startswith("batches")
    return given[0].annotation if is_so else None


def _engine(inference: ValueQuestions, name: str) -> Value | None:
    """The value of the name, if it is ignite's Engine or a subclass."""
    value = inference.names.at_top(name)
    names = [value.ref or ""] if value.cls is None else inference.library_bases(value.cls)
    is_engine = any(each.startswith("ignite.") and each.endswith(".Engine") for each in names)
    return value if is_engine else None


def _is_network(refs: list[str], names: Sequence[str]) -> bool:
    """Whether a class with these bases is a network or a part of one, and no assigner, tracker or preprocessor."""
    if any(_HELPS_NETWORKS.search(each) for each in names):
        return False
    return is_module(refs) or _looks_like_module(refs)


def _is_a(ref: str, table: hooks.HookTable) -> bool:
    is_named = not table.bases or ref.rpartition(".")[2] in table.bases
    return is_named and (not table.roots or ref.startswith(table.roots))


def _looks_like_module(refs: list[str]) -> bool:
    """Whether the name of an external base class ends with Module, Model, Net, Head ..."""
    names = [ref.rpartition(".")[2] for ref in refs]
    return any(
        re.search(r"(Module|Model|Net|Head|Backbone|Block|Layer|Loss|Encoder|Decoder|Attention)$", n) for n in names
    )


def has_unknown_base(refs: list[str]) -> bool:
    """Whether one of these library classes is of a library whose classes are unknown."""
    return any(ref.partition(".")[0] not in _KNOWN_ROOTS for ref in refs)


def _shows_module(inference: ValueQuestions, cls: ClassInfo, refs: list[str]) -> bool:
    """Whether a class with a base of an unknown library is shown to be a module.

    It does what only modules do, reads `self.training`, keeps a module of the program, or has its base from a library
    of modules.
    """
    roots = {ref.partition(".")[0] for ref in refs}
    if any("torch" in root or root in _OF_MODULES for root in roots - _KNOWN_ROOTS):
        return True
    if inference.instance(cls).kind is Kind.MODULE:
        return True
    lineage = inference.lineage(cls)
    names = {name for owner in lineage for name in (*owner.methods, *owner.attributes)}
    for owner in lineage:
        home = inference.home(owner.index)
        for method in owner.methods.values():
            attributes = (node for node in method.nodes if isinstance(node, ast.Attribute))
            reads_mode = any(dotted(node) == f"{method.self_name}.training" for node in attributes)
            if reads_mode and "training" not in names:
                return True
        for store in (each for stores in owner.attributes.values() for each in stores):
            made = _made_for(store)
            kept = None if made is None else home.names.at_top(made).cls
            if kept is not None and kept not in lineage and is_module(inference.library_bases(kept)):
                return True
    return False


def _made_for(store: AttributeStore) -> str | None:
    """`Block` of `self.x = Block(...)`."""
    statement = store.function.parent_of(store.target)
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    return value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else None


def _computes(inference: ValueQuestions, record: CallRecord) -> bool:
    """Whether the call is one of torch's functions, by what the file imports."""
    root = (dotted(record.call.func) or "").partition(".")[0]
    return (inference.names.at_top(root).ref or "").partition(".")[0] == "torch"


def _tensors_of_module(inference: ValueQuestions, function: FunctionInfo, refs: list[str]) -> frozenset[str] | None:
    """The parameters that are tensors, by annotation or use, of a `forward` whose class may be a module.

    None for classes without a base of a library, for transforms and the like, for what nothing shows to be a module,
    and for a `forward` without tensors.
    """
    cls = function.cls
    if cls is None or not has_unknown_base(refs) or any(map(_NO_MODULES.search, refs)):
        return None
    arguments = function.arguments
    given = [] if arguments is None else [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    annotated = {each.arg: ast.unparse(each.annotation) for each in given if each.annotation is not None}
    tensors = {name for name, text in annotated.items() if "Tensor" in text}
    computing = [record for record in function.calls_made if _computes(inference, record)]
    passed = {last_name(each) for record in computing for each in record.call.args if isinstance(each, ast.Name)}
    tensors |= {each.arg for each in given if each.arg in passed and each.arg not in annotated}
    return frozenset(tensors) if (tensors or computing) and _shows_module(inference, cls, refs) else None


def _callback_contract(inference: ValueQuestions, function: FunctionInfo) -> Contract | None:
    """The contract of a function passed to a framework by name: ignite's process functions, handlers, torch's hooks."""
    for decorator in function.decorators:
        handled = decorator.args if isinstance(decorator, ast.Call) and last_name(decorator.func) == "on" else []
        if any(map(_is_hot_event, handled)):
            made = Contract(True, _says_handler(inference, handled[0]))
            return made if _has_ignite(inference) else made._replace(is_likely=True)
    if takes_gradients(function):
        return Contract(True, "DistributedDataParallel calls its communication hook in every backward pass")
    taken = next(filter(None, (_by_argument(home, function) for home in _files_passing(inference, function))), None)
    return taken or _by_annotation(inference, function)


def _files_passing(inference: ValueQuestions, function: FunctionInfo) -> Sequence[ValueQuestions]:
    """The files that may pass the function to a framework: itself, in an object, or as another function's result."""
    cls, outer = function.cls, function.outer
    if function.is_lambda:
        return [inference]
    if cls is None and outer is function.index.module:
        return inference.files_passing(function)
    if cls is not None and function.name != "__call__":
        return [inference.home(index) for index in dict.fromkeys(owner.index for owner in inference.lineage(cls))]
    return [inference, *inference.making(cls or outer, "Engine")]


def takes_gradients(function: FunctionInfo) -> bool:
    """Whether a parameter is annotated as a bucket of gradients: a communication hook, or a part of one."""
    arguments = function.arguments
    named = [] if arguments is None else [*arguments.posonlyargs, *arguments.args]
    return any(
        hooks.GRADIENT_BUCKET in (last_name(each.annotation), getattr(each.annotation, "value", None))
        for each in named
        if each.annotation is not None
    )


def without_partial(node: ast.expr) -> ast.expr:
    """`f` of `partial(f, ...)`."""
    return node.args[0] if isinstance(node, ast.Call) and last_name(node.func) == "partial" and node.args else node


def _is_temporary(record: CallRecord) -> bool:
    """Whether a hook is only temporary: registered by a context manager, or removed where it is registered."""
    caller = record.function
    in_context = caller.cls is not None and "__exit__" in caller.cls.methods
    return in_context or any(last_name(each.call.func) == "remove" and not each.call.args for each in caller.calls_made)


def _of_registrar(registrar: str, record: CallRecord, path: str) -> Contract:
    says = f"`{registrar}` has it called for every batch"
    return Contract(True, says, Device.LIKELY, all_tensors=True, row=record.call.lineno, path=path)


def _by_argument(inference: ValueQuestions, function: FunctionInfo) -> Contract | None:
    """The contract under which this file passes the function to a framework."""
    calls = inference.index.calls

    def means(node: ast.expr, record: CallRecord) -> bool:
        if isinstance(node, ast.IfExp):
            return means(node.body, record) or means(node.orelse, record)
        if function.is_lambda:
            return node is function.node
        if function.cls is not None and function.name != "__call__":
            return calling.is_meant(inference, node, record, function)
        if function.cls is None and function.index is inference.index and not isinstance(node, ast.Call):
            return isinstance(node, ast.Name) and node.id == function.name and _is_in_scope(function, record.function)
        given = inference.frame_value(record.function, node)
        if given.cls is not None and given.kind is Kind.INSTANCE:
            return inference.method(given.cls, "__call__") is function
        return given.function is function

    def contract(record: CallRecord, says: str) -> Contract:
        return Contract(True, says, row=record.call.lineno, path=inference.index.path)

    for record in calls.get("Engine", ()):
        if record.call.args and means(record.call.args[0], record):
            ref = inference.frame_value(record.function, record.call.func).ref or ""
            if ref.startswith("ignite."):
                made = _processes(function, "ignite's Engine calls this function for every batch")
                return made._replace(row=record.call.lineno, path=inference.index.path)
    for handled in _handlers(inference):
        if means(handled.handler, handled.record):
            made = contract(handled.record, _says_handler(inference, handled.event))
            return made if _has_ignite(inference) else made._replace(is_likely=True)
    for taker, words in hooks.FUNCTION_KEYWORDS.items():
        for record in calls.get(taker, ()):
            if any(keyword.arg in words and means(keyword.value, record) for keyword in record.call.keywords):
                return contract(record, f"`{taker}` has it called for every batch")
    for taker in sorted(hooks.MINIMIZERS):
        for record in calls.get(taker, ()):
            given = [
                *record.call.args[:1],
                *(each.value for each in record.call.keywords if each.arg in hooks.MINIMIZED),
            ]
            ref = inference.frame_value(record.function, record.call.func).ref or ""
            if ref.startswith("scipy.optimize.") and any(means(without_partial(each), record) for each in given):
                made = contract(record, f"SciPy's `{taker}` calls it for each point of its search")
                return made._replace(arrays=frozenset(function.parameter_names[function.self_name is not None :][:1]))
    if _evaluates_by_batch(inference):
        for record in calls.get("Trainer", ()):
            if any(given.arg == "compute_metrics" and means(given.value, record) for given in record.call.keywords):
                says = "the Trainer calls `compute_metrics` for every batch under `batch_eval_metrics=True`"
                return contract(record, says)
    for registrar in hooks.FORWARD_HOOK_REGISTRARS:
        for record in calls.get(registrar, ()):
            is_meant = any(means(without_partial(given), record) for given in record.call.args[:1])
            if is_meant and not _is_temporary(record):
                return _of_registrar(registrar, record, inference.index.path)
    return None


class _Handled(NamedTuple):
    """An event of each step and the function that handles it, as a call gives them to an engine."""

    event: ast.expr
    handler: ast.expr
    record: CallRecord


def _handlers(inference: ValueQuestions) -> Iterator[_Handled]:
    """`engine.add_event_handler(Events.ITERATION_COMPLETED, f)` and `engine.on("batch_end")(f)` in the file."""
    calls = inference.index.calls
    for taker in sorted(hooks.EVENT_TAKERS):
        for record in calls.get(taker, ()):
            if len(record.call.args) > 1 and _is_hot_event(record.call.args[0]):
                yield _Handled(record.call.args[0], without_partial(record.call.args[1]), record)
    for record in calls.get("on", ()):
        if record.call.args and _is_hot_event(record.call.args[0]):
            event = record.call.args[0]
            made = (each for each in own_expressions(record.statement) if isinstance(each, ast.Call))
            given = (each.args[0] for each in made if each.func is record.call and each.args)
            yield from (_Handled(event, handler, record) for handler in given)


def _has_ignite(inference: ValueQuestions) -> bool:
    """Whether the file imports ignite."""
    names = inference.names
    return any((value.ref or "").startswith("ignite.") for value in names.all_at_top())


def _says_handler(inference: ValueQuestions, event: ast.expr) -> str:
    if _has_ignite(inference):
        return "ignite calls this handler at every iteration"
    return f"this handles `{ast.unparse(event)}`, which happens in every step by its name"


def _is_in_scope(function: FunctionInfo, caller: FunctionInfo) -> bool:
    """Whether the function is in scope at the caller."""
    around: FunctionInfo | None = caller
    while around is not None and around is not function.outer:
        around = around.outer
    return around is not None


def _evaluates_by_batch(inference: ValueQuestions) -> bool:
    """Whether some arguments of a Trainer in this file say `batch_eval_metrics=True`."""
    return any(
        keyword.arg == "batch_eval_metrics" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for name in ("TrainingArguments", "Seq2SeqTrainingArguments")
        for record in inference.index.calls.get(name, ())
        for keyword in record.call.keywords
    )


def _is_hot_event(event: ast.expr) -> bool:
    """`Events.ITERATION_COMPLETED` and `"batch_end"`, but not `Events.ITERATION_COMPLETED(every=100)`."""
    if isinstance(event, ast.BinOp):
        return _is_hot_event(event.left) or _is_hot_event(event.right)
    name = event.value if isinstance(event, ast.Constant) else getattr(event, "attr", None)
    return isinstance(name, str) and hooks.HOT_EVENTS.match(name) is not None
