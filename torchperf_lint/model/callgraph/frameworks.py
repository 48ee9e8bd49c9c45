"""Contracts with frameworks: which functions they call for every batch, and which arguments are then on the device."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import hooks, torchmetrics_api
from torchperf_lint.knowledge.accelerators import ACCELERATOR_STEMS, CPU_TUNING
from torchperf_lint.model.callgraph import callbacks, events, roles, sample_transforms
from torchperf_lint.model.domain.contracts import Contract
from torchperf_lint.model.domain.values import Device, Kind, Origin, Value
from torchperf_lint.model.syntax.index import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    contract = callbacks.of_callback(inference, function)
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
            is_rare = events.are_rare(inference, function, cls, table)
            return Contract(
                not is_rare,
                f"{table.framework} calls `{name}` "
                + ("at events outside the steps" if is_rare else "for every batch"),
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
    return callbacks.of_process(inference, function)


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
