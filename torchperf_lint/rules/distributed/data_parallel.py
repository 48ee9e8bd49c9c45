"""`nn.DataParallel(model)`: one process that copies the model to every GPU in each forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Loss, Safety, Severity
from torchperf_lint.idioms import habits, placing
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.distributed import scripts
from torchperf_lint.idioms.distributed.devices import one_by_default
from torchperf_lint.idioms.distributed.trained import is_unwrapped, training_place
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.arguments import Given
    from torchperf_lint.model import Model, Site

_CLASSES = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel")
_FUNCTIONS = ("torch.nn.parallel.data_parallel", "torch.nn.data_parallel")
_STRATEGIES = ("lightning.pytorch.strategies.DataParallelStrategy", "lightning.pytorch.plugins.DataParallelPlugin")
_TRAINERS = ("lightning.pytorch.Trainer", "lightning.pytorch.trainer.Trainer")

_BY_TORCHRUN = "the script is started by `torchrun`, and may draw and order the samples otherwise"


@rule(
    code="TPL501",
    name="data-parallel",
    category=Category.DISTRIBUTED,
    summary="a model is trained on several GPUs from a single process",
    message="`{call}` copies the model to every GPU and gathers the outputs on one in every forward pass, "
    "all from one process",
    severity=Severity.WARNING,
    loses=Loss.BYTES,
    fix=Safety.UNSAFE,
    assumes="the script may run once per GPU, with this batch size for each",
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
    if not habits.steps_an_optimizer(model.code):
        return
    for site in model.calls(*_CLASSES, *_FUNCTIONS):
        is_class = model.value(site.node.func).ref in _CLASSES
        devices = given(model, site.node, "device_ids", 1 if is_class else 2)
        if model.in_test(site) or _is_one_device(devices) or _is_unwrapped(model, site):
            continue
        trained = training_place(model, site)
        if trained is None:
            continue
        fix = _run_once_per_gpu(model, site) if is_class else None
        if fix is None and is_class and _rebinds_the_model(model, site):
            fix = _wrapped_for_ddp(model, site)
        minor = None if devices is None else one_by_default(model, site, devices.node)
        yield Finding(site, (trained,), fix, {"call": f"{model.text(site.node.func)}(...)"}, minor)


def _is_one_device(devices: Given | None) -> bool:
    """`device_ids=[0]`: nothing is copied or gathered."""
    if devices is None or devices.value is None:
        return False
    return devices.value.kind is Kind.CONTAINER and len(devices.value.items or ()) == 1


def _is_unwrapped(model: Model, site: Site) -> bool:
    """`model = model.module` undoes the wrapping, which only served names in a checkpoint."""
    assigned = model.parent(site.node)
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
        return False
    name = model.text(assigned.targets[0].target)
    return is_unwrapped(model, name)


def _rebinds_the_model(model: Model, site: Site) -> bool:
    """`model = DataParallel(model)`: it wraps a whole model that is already on its device."""
    assigned = model.parent(site.node)
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1 or not site.node.args:
        return False
    target = assigned.targets[0].target
    if isinstance(target, cst.Attribute) and model.value(target.value).kind is Kind.MODULE:
        return False
    return model.text(target) == model.text(site.node.args[0].value)


def _wrapper(model: Model, site: Site) -> str:
    """The spelling of `DistributedDataParallel` next to the wrapper's: `nn.parallel.DistributedDataParallel`."""
    wrapper = model.text(site.node.func).removesuffix("DataParallel").removesuffix("parallel.")
    return f"{wrapper}parallel.DistributedDataParallel" if wrapper else "DistributedDataParallel"


def _wrapped_for_ddp(model: Model, site: Site) -> Fix | None:
    """The line for a program that is started once per GPU; the page has the rest of the recipe."""
    torch = model.name_of("torch", site)
    inner = site.node.args[0] if site.node.args else None
    if inner is None or inner.star or torch is None or model.code.speaks_of("local_rank", "init_process_group"):
        return None
    if placing.own_rows(model, site) is None:
        return None
    wrapped = (
        f"{_wrapper(model, site)}({edits.postfix(site.tree, inner.value)}.to(local_rank), device_ids=[local_rank])"
    )
    changed = edits.together(
        () if model.name_of("os", site) else placing.import_line(model, "os"),
        *(edits.put_before(site.tree, line) for line in _process_group(torch, portable=False)),
        edits.replace(site.tree, site.node, wrapped),
    )
    title = "start one process per GPU with `torchrun`, give each a `DistributedSampler`, and wrap the model in"
    return None if changed is None else Fix(f"{title} `DistributedDataParallel`", Safety.SHOWN, changed)


# -- a script of one file as one process per GPU ----------------------------------------------------------------------

_UNLIKE_OTHERS = (
    *("distributed", "Distributed", "local_rank", "RANK", "cuda:", "CUDA_VISIBLE_DEVICES", "set_device"),
    *("ReduceLROnPlateau", "random_split", "sampler"),
    *("SummaryWriter", "wandb", "mlflow", "logging", "logger", "savefig", "makedirs", "mkdir"),
)
"""Words in programs that are already distributed, or that several processes cannot run side by side unchanged."""

_BARS = ("tqdm.tqdm", "tqdm.trange", "tqdm.auto.tqdm", "tqdm.auto.trange", "tqdm.notebook.tqdm")
_SAYS_ONLY = frozenset("item format len float int str round sum min max time state_dict join device_count".split())
"""Calls in the arguments of `print` or `torch.save` that one process alone may make."""


def _is_unlike_others(model: Model) -> bool:
    """Whether the program is already distributed, or does what several processes cannot do side by side."""
    asks = model.code.calls_plainly("input", "exit") or model.code.calls(".exit", "_exit")
    writes = model.code.calls_ending_in("open") or model.code.calls(".dump")
    chooses = model.code.names("reduction") or model.code.assigns("device_ids") or model.code.gives("cuda", 0)
    return asks or writes or chooses or model.code.speaks_of(*_UNLIKE_OTHERS)


def _run_once_per_gpu(model: Model, site: Site) -> Fix | None:
    """The whole file rewritten for `torchrun`, if it has the shape of most scripts."""
    torch = model.name_of("torch", site)
    loader = _training_loader(model)
    wraps = list(model.calls(*_CLASSES, *_FUNCTIONS))
    if torch is None or loader is None or len(wraps) != 1 or _is_unlike_others(model):
        return None
    if _trains_others(model, site) or _is_small(loader.batch_size.value) or _reads_what_it_saves(model):
        return None
    script = scripts.script_around(model, site, loader.name)
    if script is None or scripts.script_around(model, loader.site, loader.name) != script:
        return None
    if not scripts.always_runs(model, site, "device_count") or not scripts.always_runs(
        model, loader.site, "device_count"
    ):
        return None
    portable = model.code.names("is_available")
    changed = edits.together(
        () if model.name_of("os", site) else placing.import_line(model, "os"),
        script.begin(*_process_group(torch, portable=portable)),
        _split(model, torch, loader),
        _each_on_its_device(model, site, portable=portable),
        script.in_each_epoch(f"sampler.set_epoch({script.epoch})"),
        _said_once(model),
        *(
            edits.replace(count.tree, count.node, f"{torch}.distributed.get_world_size()")
            for count in model.calls("torch.cuda.device_count")
        ),
        script.end(f"{torch}.distributed.destroy_process_group()"),
    )
    title = "run one process per GPU, started with `torchrun --nproc-per-node=gpu`"
    return None if changed is None else Fix(title, Safety.UNSAFE, changed, _BY_TORCHRUN)


def _trains_others(model: Model, site: Site) -> bool:
    """Whether the file trains parameters outside the wrapped model: nothing would reduce their gradients."""
    assigned = model.parent(site.node)
    while assigned is not None and not isinstance(assigned, cst.Assign):
        assigned = model.parent(assigned)
    names = {None if assigned is None else shape.dotted(assigned.targets[0].target)}
    names |= {shape.dotted(argument.value) for argument in site.node.args[:1]}
    for call in model.method_calls("parameters", "named_parameters"):
        receiver = shape.receiver(call.node)
        path = None if receiver is None else shape.dotted(receiver)
        if path is None or not any(name is not None and f"{path}.".startswith(f"{name}.") for name in names):
            return True
    return False


def _is_small(size: cst.BaseExpression) -> bool:
    """Whether a batch is too small to be divided among a machine's GPUs."""
    return isinstance(size, cst.Integer) and int(size.value, 0) < _MOST_GPUS


_MOST_GPUS = 8


def _reads_what_it_saves(model: Model) -> bool:
    """Whether processes may read a file that the first one is still writing."""
    return any(True for _ in model.calls("torch.save")) and any(True for _ in model.calls("torch.load"))


def _process_group(torch: str, *, portable: bool) -> tuple[str, ...]:
    rank = 'local_rank = int(os.environ["LOCAL_RANK"])'
    if not portable:
        return rank, f"{torch}.cuda.set_device(local_rank)", f'{torch}.distributed.init_process_group("nccl")'
    return (
        rank,
        f"device_ids = [local_rank] if {torch}.cuda.is_available() else None",
        "if device_ids:",
        f"    {torch}.cuda.set_device(local_rank)",
        f'{torch}.distributed.init_process_group("nccl" if device_ids else "gloo")',
    )


class _Loader(NamedTuple):
    """The shuffling loader: its name, its creating call, and the call's arguments."""

    name: str
    site: Site
    dataset: str
    batch_size: cst.Arg
    shuffle: cst.Arg


def _training_loader(model: Model) -> _Loader | None:
    """The file's only shuffling loader, if its dataset has a name."""
    found = []
    for site in model.calls("torch.utils.data.DataLoader"):
        named = {argument.keyword.value: argument for argument in site.node.args if argument.keyword is not None}
        if any(argument.star for argument in site.node.args):
            return None
        if "shuffle" not in named or shape.is_literal(named["shuffle"].value, "False"):
            continue
        assigned = model.parent(site.node)
        dataset = shape.argument(site.node, "dataset", 0)
        if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1 or not isinstance(dataset, cst.Name):
            return None
        target = assigned.targets[0].target
        if not shape.is_literal(named["shuffle"].value, "True") or not isinstance(target, cst.Name):
            return None
        if "batch_size" not in named or "drop_last" in named:
            return None
        found.append(_Loader(target.value, site, dataset.value, named["batch_size"], named["shuffle"]))
    return found[0] if len(found) == 1 else None


def _split(model: Model, torch: str, loader: _Loader) -> tuple[Edit, ...] | None:
    """Give each process its share of the samples and of the batch."""
    tree, size = loader.site.tree, loader.batch_size.value
    share = f"{edits.postfix(tree, size)} // {torch}.distributed.get_world_size()"
    share = share if not isinstance(size, cst.Integer) else f"{size.value} // {torch}.distributed.get_world_size()"
    shuffle = loader.shuffle
    return edits.together(
        edits.put_before(tree, f"sampler = {torch}.utils.data.DistributedSampler({loader.dataset})"),
        edits.replace(tree, size, share),
        edits.replace(tree, shuffle.value, "sampler"),
        () if shuffle.keyword is None else edits.replace(tree, shuffle.keyword, "sampler"),
    )


def _each_on_its_device(model: Model, site: Site, *, portable: bool) -> Edit | None:
    """Move the model to the process's own device before it is wrapped."""
    attribute = model.parent(site.node)
    moved = model.parent(attribute) if isinstance(attribute, cst.Attribute) else None
    wrapped: cst.Call = site.node
    if isinstance(moved, cst.Call) and shape.method_name(moved) in ("to", "cuda"):
        wrapped = moved
    assigned = model.parent(wrapped)
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1 or not site.node.args:
        return None
    inner = site.node.args[0]
    if inner.star or inner.keyword is not None:
        return None
    move = _move_of(model, site, wrapped, model.text(assigned.targets[0].target))
    if move is None:
        return None
    ids = "device_ids" if portable else "[local_rank]"
    text = f"{_wrapper(model, site)}({edits.postfix(site.tree, inner.value)}{move}, device_ids={ids})"
    return edits.replace(site.tree, wrapped, text)


def _move_of(model: Model, site: Site, wrapped: cst.Call, name: str) -> str | None:
    """The text of the model's move (`.to(device)`), at the wrapper or after it; empty if it was moved before."""
    if wrapped is not site.node:
        return model.text(wrapped).removeprefix(model.text(site.node))
    if model.value(site.node.args[0].value).device.on_accelerator:
        return ""
    for move in model.method_calls("to", "cuda"):
        receiver = shape.receiver(move.node)
        if receiver is not None and model.text(receiver) == name and move.start > site.end:
            return model.text(move.node).removeprefix(name)
    return None


def _said_once(model: Model) -> tuple[Edit, ...] | None:
    """Let only the first process print, plot and save."""
    made: list[Edit | tuple[Edit, ...] | None] = []
    for site in [*model.builtin_calls("print"), *model.calls("torch.save")]:
        inner = [call for argument in site.node.args for call in shape.calls_in(argument)]
        rows = placing.own_rows(model, site)
        alone = isinstance(model.parent(site.node), cst.Expr) and rows is not None
        if rows is None or not alone or not all(shape.method_name(call) in _SAYS_ONLY for call in inner):
            return None
        made.append(edits.put_under(site.tree, rows, 'if os.environ["RANK"] == "0":'))
    for site in model.calls(*_BARS):
        if shape.argument(site.node, "disable") is not None:
            return None
        made.append(edits.add_argument(site.tree, site.node, 'disable=os.environ["RANK"] != "0"'))
    return edits.together(*made)
