"""`nn.DataParallel(model)`: one process that copies the model to every GPU in each forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.model.arguments import given
from torchperf_lint.model.values import Kind
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_CLASSES = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel")
_FUNCTIONS = ("torch.nn.parallel.data_parallel", "torch.nn.data_parallel")
_STRATEGIES = ("lightning.pytorch.strategies.DataParallelStrategy", "lightning.pytorch.plugins.DataParallelPlugin")
_TRAINERS = ("lightning.pytorch.Trainer", "lightning.pytorch.trainer.Trainer")
_TRAINING = (".backward(", "Trainer(", "training_step", "optimizer.step(")


@rule(
    code="TPL501",
    name="data-parallel",
    category=Category.DISTRIBUTED,
    summary="a model is trained on several GPUs from a single process",
    message="`{call}` copies the model to every GPU and gathers the outputs on one, in each step and from one process",
    severity=Severity.WARNING,
    fix=Safety.UNSAFE,
    triggers=(("DataParallel", "data_parallel", '"dp"', "'dp'"),),
)
def data_parallel(model: Model) -> Iterator[Finding]:
    """DataParallel around a model that the file trains, and Lightning's strategy of that kind."""
    for site in model.calls(*_TRAINERS):
        for name in ("strategy", "accelerator", "distributed_backend"):
            chosen = given(model, site.node, name)
            if chosen is not None and isinstance(chosen.node, cst.SimpleString) and chosen.node.evaluated_value == "dp":
                edit = edits.replace(site.tree, chosen.node, chosen.node.value.replace("dp", "ddp"))
                fix = None if edit is None else Fix("run one process per GPU", Safety.UNSAFE, (edit,))
                yield Finding(site, (), fix, {"call": f"{model.text(site.node.func)}({name}={chosen.node.value})"})
    for site in model.calls(*_STRATEGIES):
        yield Finding(site, (), None, {"call": f"{model.text(site.node.func)}(...)"})
    if not model.mentions(*_TRAINING):
        return
    for site in model.calls(*_CLASSES, *_FUNCTIONS):
        is_class = model.value(site.node.func).ref in _CLASSES
        if model.in_test(site) or _has_one_device(model, site, 1 if is_class else 2) or _is_unwrapped(model, site):
            continue
        fix = _wrapped_for_ddp(model, site) if is_class and _rebinds_the_model(model, site) else None
        yield Finding(site, (), fix, {"call": f"{model.text(site.node.func)}(...)"})


def _has_one_device(model: Model, site: Site, position: int) -> bool:
    """`device_ids=[0]`: nothing is copied or gathered."""
    devices = given(model, site.node, "device_ids", position)
    if devices is None or devices.value is None:
        return False
    return devices.value.kind is Kind.CONTAINER and len(devices.value.items or ()) == 1


def _is_unwrapped(model: Model, site: Site) -> bool:
    """`model = model.module` undoes the wrapping, which then was there for the names in a checkpoint."""
    assigned = model.parent(site.node)
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
        return False
    name = model.text(assigned.targets[0].target)
    return model.mentions(f"{name} = {name}.module")


def _rebinds_the_model(model: Model, site: Site) -> bool:
    """`model = DataParallel(model)`: a whole model, which is on its device by then, and not a part of one."""
    assigned = model.parent(site.node)
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1 or not site.node.args:
        return False
    return model.text(assigned.targets[0].target) == model.text(site.node.args[0].value)


def _wrapped_for_ddp(model: Model, site: Site) -> Fix | None:
    """The line as it stands in a program that is started once per GPU; the page has the rest of the recipe."""
    wrapper = model.text(site.node.func).removesuffix("DataParallel").removesuffix("parallel.")
    name = f"{wrapper}parallel.DistributedDataParallel" if wrapper else "DistributedDataParallel"
    if not site.node.args or site.node.args[0].star:
        return None
    wrapped = f"{name}({model.text(site.node.args[0].value)}, device_ids=[local_rank])"
    edit = edits.replace(site.tree, site.node, wrapped)
    title = "start one process per GPU with `torchrun`, give each a `DistributedSampler`, and wrap the model in"
    return None if edit is None else Fix(f"{title} `DistributedDataParallel`", Safety.SHOWN, (edit,))
