"""Results of torch's functions and methods: kinds, devices, shapes. Evidence: sync semantics of torch 1.13 to 2.13."""

from __future__ import annotations

FACTORIES = frozenset(
    {
        "torch." + name
        for name in (
            "zeros ones full empty eye arange linspace logspace rand randn randint randperm tensor as_tensor "
            "scalar_tensor tril_indices triu_indices hann_window hamming_window blackman_window kaiser_window "
            "bartlett_window empty_strided asarray frombuffer"
        ).split()
    }
)
"""Make a tensor from nothing or from host data: on the CPU unless `device=` says otherwise."""

CAUSAL_MASK = "torch.nn.Transformer.generate_square_subsequent_mask"
"""Makes a mask that hides later positions: on the CPU unless its `device` says otherwise."""

HOST_DATA_FACTORIES = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})
"""Factories whose first argument may already be a tensor."""

SPARSE_FACTORIES = frozenset(f"torch.sparse_{name}_tensor" for name in "coo csr csc bsr bsc compressed".split())
"""Make a sparse tensor from its indices and values: where the values are unless `device=` says otherwise."""

LIKE_FACTORIES = frozenset(f"torch.{name}_like" for name in "zeros ones full empty rand randn randint".split())
"""Make a tensor like their argument: on its device and of its dtype unless specified otherwise."""

LEGACY_FACTORIES = {
    "torch.FloatTensor": "float32",
    "torch.LongTensor": "int64",
    "torch.DoubleTensor": "float64",
    "torch.IntTensor": "int32",
    "torch.BoolTensor": "bool",
    "torch.ByteTensor": "uint8",
    "torch.HalfTensor": "float16",
    "torch.Tensor": "float32",
}
"""Typed constructors: always on the CPU."""

VECTOR_FACTORIES = frozenset(
    "torch." + name for name in "arange linspace logspace randperm hann_window hamming_window".split()
)

DEFAULT_DEVICE = "torch.get_default_device"

CURRENT_ACCELERATOR = "torch.accelerator.current_accelerator"

HOST_RESULTS = {
    "torch.is_tensor": "number",
    "torch.is_floating_point": "number",
    "torch.is_grad_enabled": "number",
    "torch.equal": "number",
    "torch.allclose": "number",
    "torch.is_nonzero": "number",
    "torch.numel": "number",
    "torch.get_num_threads": "number",
    "torch.cuda.is_available": "number",
    "torch.cuda.device_count": "number",
    "torch.cuda.current_device": "number",
    "torch.cuda.memory_allocated": "number",
    "torch.cuda.max_memory_allocated": "number",
    "torch.cuda.memory_reserved": "number",
    "torch.cuda.max_memory_reserved": "number",
    "torch.cuda.get_device_name": "string",
    "torch.initial_seed": "number",
    "torch.get_default_dtype": "dtype",
    "torch.finfo": "unknown",
    "torch.iinfo": "unknown",
    "torch.load": "unknown",
    "torch.save": "None",
    "torch.manual_seed": "unknown",
    "torch.no_grad": "unknown",
    "torch.enable_grad": "unknown",
    "torch.inference_mode": "unknown",
    "torch.set_grad_enabled": "unknown",
    "torch.autocast": "unknown",
    "torch.get_rng_state": "unknown",
    "torch.Generator": "unknown",
    "torch.Size": "unknown",
    "torch.typename": "string",
    "torch.broadcast_shapes": "unknown",
    "torch.result_type": "dtype",
    "torch.promote_types": "dtype",
}
"""Functions of `torch` that return no tensor: the type of their result."""

NOT_TENSOR_MODULES = (
    "torch.cuda.",
    "torch.utils.",
    "torch.distributed.",
    "torch.optim.",
    "torch.backends.",
    "torch.jit.",
    "torch.onnx.",
    "torch.profiler.",
    "torch.autograd.profiler",
    "torch.multiprocessing.",
    "torch.hub.",
    "torch.random.",
    "torch.amp.",
    "torch.testing.",
    "torch.version.",
    "torch.package.",
    "torch.fx.",
    "torch.export.",
    "torch.library.",
    "torch.ops.",
    "torch._",
    "torch.mps.",
    "torch.xpu.",
    "torch.overrides.",
    "torch.futures.",
    "torch.monitor.",
    "torch.nn.init.",
    "torch.nn.utils.rnn.",
    "torch.nn.utils.parametriz",
    "torch.quantization.",
    "torch.ao.",
    "torch.distributions.",
    "torch.func.",
    "torch.autograd.",
    "torch.nn.parallel.",
    "torch.compiler.",
)
"""Below these prefixes a function's result is not assumed to be a tensor."""

SEVERAL_TENSORS = frozenset(
    "chunk split tensor_split unbind topk sort kthvalue mode std_mean var_mean meshgrid "
    "split_with_sizes hsplit vsplit dsplit aminmax broadcast_tensors qr svd eigh eig slogdet lu "
    "nonzero_tuple max_pool2d_with_indices lstsq cummax cummin median_with_indices frexp".split()
)
"""Functions and methods that return a tuple of tensors."""

JOINS = frozenset("cat concat concatenate stack hstack vstack dstack column_stack row_stack".split())
"""Functions that join tensors, which all have to be on one device."""

SEVERAL_OF_SEVERAL = frozenset("atleast_1d atleast_2d atleast_3d".split())
"""Functions that return a tuple of tensors for several tensors, or for a list of them."""

EXTRAS_GIVE_SEVERAL = {"unique": 1, "unique_consecutive": 0}
"""Return one tensor unless `return_inverse` or `return_counts` is set; how many arguments come before these."""

EXTRAS = ("return_inverse", "return_counts")

RESULT_FIELDS = frozenset(
    "values indices eigenvalues eigenvectors sign logabsdet U S V Vh Q R L LU P pivots solution residuals "
    "singular_values mantissa exponent min max".split()
)
"""Fields of the named tuples that torch's functions return."""

WHOLE_FIELDS = frozenset({"indices", "pivots"})
"""Fields that are tensors of whole numbers."""

DIM_GIVES_PAIR = frozenset("max min median nanmedian mode kthvalue".split())
"""Reductions that return a (values, indices) pair when called with a dimension."""

GIVE_INDICES = DIM_GIVES_PAIR | {"topk", "sort", "cummax", "cummin"}
"""Those whose second result is the indices."""

FULL_REDUCTIONS = frozenset(
    "sum mean prod std var max min norm any all median nansum nanmean amax amin logsumexp count_nonzero argmax argmin "
    "dist dot trace numel".split()
)
"""Return one element when called without a dimension."""

COMPARISONS = frozenset(
    "eq ne lt le gt ge isnan isinf isfinite isin logical_and logical_or logical_not logical_xor isclose".split()
)

BROKEN_NUMBERS = frozenset("isfinite isinf isnan isneginf isposinf".split())
"""Ask for NaN or infinity."""

SCALAR_LOSSES = frozenset(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div cosine_embedding_loss margin_ranking_loss triplet_margin_loss ctc_loss "
    "hinge_embedding_loss multi_margin_loss multilabel_margin_loss poisson_nll_loss soft_margin_loss gaussian_nll_loss "
    "triplet_margin_with_distance_loss multilabel_soft_margin_loss".split()
)
"""torch.nn.functional losses: one element unless `reduction` says otherwise."""

SEVERAL_OUTPUT_MODULES = frozenset(
    "torch.nn." + name for name in "RNN LSTM GRU MultiheadAttention LSTMCell AdaptiveLogSoftmaxWithLoss".split()
)

COMPARES_ON_HOST = frozenset({"equal", "allclose", "is_nonzero"})
"""Functions and methods that wait for the device to return True or False."""

HOST_READS = {
    "item": "number",
    "tolist": "unknown",
    "numpy": "numpy",
    "__array__": "numpy",
    **dict.fromkeys(COMPARES_ON_HOST, "number"),
}
"""Tensor methods that wait for the device and return host data."""

METADATA_METHODS = frozenset(
    "size dim ndimension numel nelement stride storage_offset element_size data_ptr is_contiguous is_floating_point "
    "is_complex get_device type_as_string is_pinned is_shared has_names untyped_storage storage _nnz sparse_dim "
    "dense_dim q_scale q_zero_point q_per_channel_axis qscheme".split()
)
"""Tensor methods that read metadata on the host: never a wait."""

ASKS_KIND = "is_"
"""Prefix of functions and methods about a tensor's kind, or torch's state: `is_complex`."""

METADATA_ATTRIBUTES = frozenset(
    "shape dtype layout ndim is_cuda is_cpu is_leaf requires_grad grad_fn names itemsize nbytes is_sparse "
    "is_quantized is_mps is_meta _version output_nr".split()
)

TENSOR_ATTRIBUTES = frozenset("T H mT mH data grad real imag".split())

NEW_TENSOR_METHODS = frozenset("new_zeros new_ones new_full new_empty new_tensor".split())

TAKE_SHAPES = frozenset({"expand_as", "view_as", "reshape_as"})
"""Methods that take no more than the shape of their argument, wherever that is."""

GRADIENTS = "torch.autograd.grad"
VARIABLES = frozenset({"torch.autograd.Variable", "torch.autograd.variable.Variable"})
"""The old name of tensors that record gradients: the tensor that it gets."""

INITIALISERS = "torch.nn.init."
"""Functions with this prefix fill their first argument and return it."""

PACKED = "torch.nn.utils.rnn."

INPLACE_NONE_METHODS = frozenset("backward register_hook retain_grad share_memory_ record_stream".split())

DTYPE_METHODS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}

DTYPES = {
    "torch." + name: real
    for name, real in (
        ("float", "float32"),
        ("double", "float64"),
        ("half", "float16"),
        ("long", "int64"),
        ("int", "int32"),
        ("short", "int16"),
        *((same, same) for same in "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 bool".split()),
    )
}

KEEP_MODULE = frozenset(
    {
        "torch.compile",
        "torch.nn.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.jit.script",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "apex.parallel.DistributedDataParallel",
        "apex.parallel.convert_syncbn_model",
        "copy.deepcopy",
        "copy.copy",
    }
)
"""Wrappers that return their first argument, or a view of it."""

ON_CURRENT_DEVICE = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel"})

LOADERS = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch.utils.data.dataloader.DataLoader",
        "torch_geometric.loader.DataLoader",
        "torch_geometric.data.DataLoader",
        "monai.data.DataLoader",
        "monai.data.dataloader.DataLoader",
        "torchdata.stateful_dataloader.StatefulDataLoader",
    }
)
"""Loader classes with torch's keywords (num_workers, pin_memory, ...)."""

SCALERS = frozenset({"torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.grad_scaler.GradScaler"})

DATASET_PARTS = frozenset({"torch.utils.data.Subset", "torch.utils.data.random_split"})
"""Return (a list of) parts of the dataset that is their first argument."""

SIZED_BY_DATA = frozenset(
    "nonzero argwhere where masked_select unique unique_consecutive bincount one_hot repeat_interleave".split()
)
"""Functions and methods whose result's size depends on the data: the host waits for it."""

SIZE_ARGUMENTS = {"one_hot": ("num_classes", 1), "repeat_interleave": ("output_size", None)}
"""The argument that gives the size beforehand, and its position."""

VIEW_METHODS = frozenset(
    "view reshape flatten squeeze unsqueeze permute transpose movedim t expand narrow select unflatten view_as".split()
)
"""Tensor methods whose result shares the memory of the tensor, so that it is pinned if the tensor is."""

LAY_OUT_BY_SIZES = frozenset(
    "view reshape expand repeat tile broadcast_to narrow unflatten flatten permute transpose movedim unsqueeze "
    "squeeze t".split()
)
"""Functions and methods that lay one tensor out: what else they are given are sizes and dimensions."""

OF_MATRICES = frozenset("eye triu tril triu_indices tril_indices".split())
"""Functions and methods whose result has two dimensions or more."""

KEEP_DTYPE = VIEW_METHODS | frozenset("triu tril flip roll repeat tile".split())
"""Methods whose result holds elements of the tensor, or zeros, in its dtype."""

LOADER_POSITIONS = {"dataset": 0, "batch_size": 1, "num_workers": 5, "collate_fn": 6, "pin_memory": 7}
"""0-based positions of DataLoader's parameters."""

TAKES_SIZES = frozenset(
    "range zeros ones empty full rand randn arange linspace new_zeros new_ones new_full new_empty view reshape expand "
    "repeat narrow split split_with_sizes chunk tensor_split topk unflatten pad one_hot bincount tril triu roll "
    "repeat_interleave unfold select all_to_all all_to_all_single trange islice interpolate randint randperm".split()
)
"""Functions and methods whose number arguments are sizes, counts or places: the host needs them at once."""

MAKES_OF_SIZES = frozenset(
    "range zeros ones empty full rand randn arange linspace new_zeros new_ones new_full new_empty trange islice "
    "randint randperm".split()
)
"""Those of them that take no data: their first argument is a size as well."""

NEEDS_SIZES = frozenset(
    "range zeros ones empty full rand randn arange new_zeros new_ones new_full new_empty view reshape expand repeat "
    "narrow unflatten".split()
)
"""Functions and methods that read every one-element tensor among their arguments on the host."""

TEXT_METHODS = frozenset(
    "strip lstrip rstrip lower upper title capitalize removeprefix removesuffix encode zfill".split()
)
"""Methods of strings that no tensor has."""

TENSOR_ONLY_METHODS = frozenset(
    "item detach clamp_ unsqueeze numel masked_fill masked_fill_ index_select contiguous permute new_tensor new_zeros "
    "new_ones new_full new_empty type_as expand_as scatter_ scatter_add_ unbind topk clamp clamp_min clamp_max "
    "masked_select".split()
)
"""Methods that only tensors have, among the values that go through a model."""

ONLY_TENSORS_HAVE = TENSOR_ONLY_METHODS | frozenset(
    "shape dtype ndim backward requires_grad grad is_cuda view view_as reshape expand squeeze flatten transpose sum "
    "mean any all max min abs float long bool half double isnan isinf isfinite softmax sigmoid argmax clamp mul_ add_ "
    "copy_ div_ fill_ zero_ sub_ new_tensor nonzero clone t permute topk log_softmax flip roll".split()
)
"""Attributes and methods that numbers, texts and containers lack: what has one and is on the device is a tensor."""

GIVES_TENSOR = frozenset(
    "any all sum mean max min amax amin prod norm std var abs isnan isinf isfinite eq ne lt le gt ge logical_and "
    "logical_or logical_not detach clone squeeze unsqueeze view reshape flatten float long bool int half double argmax "
    "argmin sigmoid softmax exp log sqrt square pow add sub mul div clamp new_zeros new_ones new_full new_tensor "
    "new_empty nonzero count_nonzero index_select gather masked_fill masked_select isclose round floor ceil "
    "diff cumsum median mode topk sort t permute transpose expand repeat contiguous type_as".split()
)
"""Methods that only tensors (and arrays) have and that return a tensor."""

PARAMETER = "torch.nn.Parameter"

REGISTERING_METHODS = frozenset({"register_buffer", "register_parameter"})
"""Methods that only modules have, and call on themselves."""

MODULE_NUMBERS = frozenset(
    "in_features out_features in_channels out_channels groups num_embeddings embedding_dim num_layers hidden_size "
    "input_size proj_size num_features embed_dim num_heads head_dim num_groups num_channels kdim vdim".split()
)
"""Whole numbers among the attributes of torch's own modules."""

MODULE_FLAGS = frozenset("bidirectional batch_first inplace affine track_running_stats elementwise_affine".split())

MODULE_FLOATS = frozenset("eps negative_slope".split())

MODULE_SIZES = frozenset("kernel_size normalized_shape".split())
"""Tuples of whole numbers, or one, among them."""

MODULE_TENSORS = frozenset("weight bias running_mean running_var in_proj_weight".split())
"""Parameters and buffers among them."""

MODULE_DICT = "torch.nn.ModuleDict"

MODULE = "torch.nn.Module"

HOLDERS_OF_PARAMETERS = frozenset({"torch.nn.ParameterList", "torch.nn.ParameterDict"})
"""Modules whose items are tensors."""

HOLDERS = frozenset("torch.nn." + name for name in "Module Sequential ModuleList ModuleDict".split())
"""Modules that have no attributes of their own but what a program puts into them."""

RESHAPE_IN_PLACE = frozenset(
    "unsqueeze_ squeeze_ resize_ resize_as_ t_ transpose_ swapaxes_ swapdims_ as_strided_ set_".split()
)
"""Methods after which a tensor has another shape, under the same name."""

MODULE_ONLY_METHODS = frozenset(
    "parameters named_parameters buffers named_buffers modules named_modules children named_children state_dict "
    "load_state_dict train eval zero_grad".split()
)
"""Methods that modules have and tensors lack: they show that an object moved to the device is a module."""
