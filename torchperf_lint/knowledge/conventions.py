"""Names that the field uses for one thing only: evidence where a value itself is unknown."""

from __future__ import annotations

import re

LOADER_ENDINGS = ("loader", "dataloader", "_dl", "loaders")
WALK_ONE = frozenset(
    "enumerate tqdm islice cycle iter prepare setup_dataloaders log_every track prefetch ParallelLoader MpDeviceLoader "
    "DataPrefetcher progress_bar skip_first_batches".split()
)
"""Calls that give the items of their first argument."""

LOADER_WRAPPERS = WALK_ONE | {"zip", "chain"}
"""Calls that iterate over their arguments."""

REARRANGE = frozenset("filter list map reversed sorted tuple".split())
"""Builtins that give an item for each item of their argument, or leave some out, and go over all at once."""

BATCH_ITERATORS = re.compile(
    r"(?:data|batch|batches|loader)_?iter(?:ator)?$|^_*(?:train|val|valid|test|eval)_?iter(?:ator)?$|^_*prefetcher$"
)
"""Names of iterators over a loader."""

GIVES_BATCHES = re.compile(
    r"(?:^|_)(?:(?:iter|iterate|get|make|generate|yield|sample)_?)?(?:mini_?)?(?:batches|batch_(?:iterator|generator|iter|loader))$"
)
"""Names of what gives one batch after the other: `dataset.iterbatches()`, `mini_batch_generator(...)`."""

DRAWS_BATCH = re.compile(r"^(?:sample|draw)_(?:\w+_)?(?:mini_?)?batch$")
"""Methods that return one batch of random samples: `dataset.sample_transition_batch(size)`."""

REPLAY_BUFFERS = re.compile(r"(?:^|_)(?:replay|buffer|memory|replay_?buffer|replay_?memory)$")
"""Names of what keeps the transitions of reinforcement learning, in lower case."""

TRAINING_METHODS = re.compile(
    r"^_?(?:update|learn|train|optimize)"
    r"(?:_(?:\w+_)?(?:actor|agent|critic|model|net|network|param|parameter|policy|step|weight)s?|_(?:on|from)_batch)?$"
    r"|^_?(?:learn|train)_batch$"
)
"""Names of methods that train on what they are given; `update_progress` and `update_batch` may do something else."""

MODEL_NAMES = frozenset(
    "model net network student teacher generator discriminator encoder decoder backbone unet vae ema_model netG netD "
    "text_encoder image_encoder policy critic actor model_engine ddp_model model_without_ddp".split()
)
MODEL_ENDINGS = ("_model", "_net", "_network", "_encoder", "_decoder")
MAKERS = re.compile(r"_?(?:build|make|create|get|load|init|setup|prepare|wrap|unwrap|save|compile)_")
"""Verbs before `_model`, `_optimizer` and the like: a function that modifies one, or returns one."""

CHANGERS = re.compile(
    r"_?(?:add|apply|attach|check|clear|clone|copy|count|detach|disable|enable|export|freeze|has|is|log|merge|num|print|"
    r"put|register|remove|replace|reset|restore|restrict|set|share|show|split|summarize|swap|sync|tie|to|train|unfreeze|"
    r"update|use|validate|with)_"
)
"""Verbs before `_model`, `_encoder` and the like: a function that changes or inspects one, and does not run it."""

SETTINGS = frozenset("args cfg config conf hparams opt options params settings".split())
"""Names for what a program is told on its command line or in a file."""

WRAP_DEFAULTS = frozenset("Argument Default Field Option attrib field ib".split())
"""Functions whose first argument is the default of a field: Pydantic's, attrs', Typer's."""

CRITERION_NAMES = frozenset("criterion loss_fn loss_func criteria loss_function objective lossfn".split())
CRITERION_ENDINGS = ("_criterion", "_loss_fn", "_loss_func")
OPTIMIZER_NAMES = frozenset("optimizer optim opt optimizers optimizerG optimizerD optimizer_g optimizer_d".split())
OPTIMIZER_ENDINGS = ("_optimizer", "_optim", "_opt")
SCALER_NAMES = frozenset("scaler grad_scaler loss_scaler amp_scaler".split())
DEVICE_NAMES = frozenset("device dev torch_device gpu cuda_device gpu_id local_rank device_id".split())
DEVICE_ATTRIBUTES = frozenset("device _device gpu torch_device cuda_device main_device execution_device".split())


_ON_HOST = re.compile(r"step|param|flag|meta|option|setting|config|cfg|kwargs|(?:^|_)(?:cpu|host)(?:_|$)")


def stays_on_host(name: str) -> bool:
    """Whether it names step counters, or settings that accompany tensors: these stay on the host."""
    return _ON_HOST.search(name.lower()) is not None


MAY_WORK_ON_HOST = re.compile(
    r"match|assign|tokeni|process|collat|augment|transform|sampl|logger|writer|(?<!distance_)metric|meter|saver|buffer|memory|queue|env$"
    r"|to_host|detok|rng|timer|clock|counter|stats|scorer|evaluat|^n_|^num_|^ntokens$|^post$|(^|_)(size|length|len|count)(_|$)"
)
"""Names of a module's parts that may bring their arguments to the host."""

WORKS_ON_DATA = re.compile(
    r"^_?(?:extract|cast|preprocess|project|embed|pool|expand|merge|split|attend|normalize|pad|quantize|mix|augment)(?:_|$)"
)
"""Methods of modules that give tensors for tensors, whatever library's they are."""

DESCRIPTIONS = re.compile(r"data_samples|img_metas|metainfo|^mode$")
"""Parameters of OpenMMLab's modules that describe a batch, and hold numbers and texts beside tensors."""

RANKS = frozenset("get_rank get_local_rank get_world_size".split())
"""Functions of any library that return an integer about the processes of a run."""

BATCH_CLASSES = re.compile(r"^(?:\w*Batch|Batch\w*|HeteroData|Data|TensorDict)$")
"""Libraries' classes of batches: PyTorch Geometric's, DGL's, the tokenizers' `BatchEncoding`."""

HOST_TENSORS = frozenset({"batch_sizes"})
"""Names of tensors that stay on the host next to data on the device: the sizes in a PackedSequence."""

BOUNDS_OF_SPACES = frozenset({"low", "high"})
"""Attributes of a space of Gymnasium (`action_space.low`): arrays that never change."""

MOVING_HELPERS = re.compile(r"(?:^|_)to_(cuda|gpu|device)$")
"""Functions that return their argument on the accelerator: `move_to_cuda(batch)`, `send_to_device(x, device)`."""

CLIPPING_METHODS = ("clip_grad_norm", "clip_grad_norm_")
"""Methods of optimizer wrappers: they return the norm of all gradients, some as a number."""

COUNTS_OR_NAMES = re.compile(
    r"(?:^|_)(?:num|count|counts|length|lengths|size|sizes|name|names|text|texts|str|has|is)(?:_|$)"
)
"""Methods that no tensor has and that ask an object for a number or a text."""

ACCUMULATION = re.compile(r"accum|grad_acc|acc_steps|iter_size|(?<!target_)(?<!hard_)(?<!soft_)update_freq|cumulative")
"""A modulus over one of these is true once per optimizer step, so it is no sampling guard; targets have their own."""

ACCELERATOR_NAMES = r"cuda|gpu|device|accelerator|(?:^|_)(?:mps|npu|xpu)(?:_|$)"
"""Names in a condition that test for the accelerator (a pattern, because `input` contains `npu`)."""

METER_CLASSES = ("AverageMeter", "SmoothedValue", "RunningAverage", "AvgMeter", "Meter", "Averager", "MetricLogger")

READING_METERS = ("MetricLogger", "metric_logger", "SmoothedValue")
"""Meters of the torchvision references and their many copies: they read a tensor when they get it."""

EXPORT_QUESTIONS = re.compile(r"(?:^|_)is_(?:\w+_)?(?:scripting|tracing|exporting|in_onnx_export)(?:_|$)")
"""Functions that return true only while a program is being exported: torch's, and wrappers that combine several."""

COMPILE_QUESTIONS = re.compile(r"(?:^|_)is_(?:\w+_)?compiling$")
"""Functions that return true only in code that is being compiled."""
