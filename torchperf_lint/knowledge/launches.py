"""What launches much work on the device, what launches little or none, and what waits for it."""

from __future__ import annotations

import re

from torchperf_lint.knowledge.host_work import HOST_LIBRARIES

HOST_ROOTS = frozenset(
    (
        *HOST_LIBRARIES,
        *"math os sys time datetime logging warnings random collections typing dataclasses contextlib pathlib".split(),
        *"re string enum numbers inspect io shutil statistics textwrap types uuid loguru rich".split(),
    )
)
"""Libraries that launch nothing on the device, by the first part of a function's qualified name."""

CONSUMING_ROOTS = ("functools.", "itertools.", "operator.", "tqdm.")
"""Functions with these prefixes may call what is passed to them, or go over it."""

READING_BUILTINS = frozenset("bool complex float int print repr str".split())
"""Built-in functions that wait for a tensor."""

QUIET_BUILTINS = frozenset(
    "abs bytes callable chr delattr divmod enumerate format getattr globals hasattr hash hex id input isinstance "
    "issubclass len locals object open ord pow range reversed round setattr slice super type vars zip".split()
)
"""Built-in functions that neither call their arguments nor go over them."""

HOST_BUILTINS = (READING_BUILTINS | QUIET_BUILTINS) - frozenset("abs divmod pow reversed round".split())
"""Built-in functions that compute nothing with tensors, and go over nothing."""

RUN_THE_BODY = frozenset("staticmethod classmethod property no_grad inference_mode enable_grad wraps typecheck".split())
"""Decorators, by their last names, whose function runs whenever it is called."""

SWALLOW = frozenset({"suppress", "raises", "assertRaises"})
"""Contexts, by their last names, that keep an error from leaving their block."""

ACCELERATORS = frozenset("accelerator cuda hpu mps npu xpu".split())
"""The modules of torch for devices."""

SYNCHRONIZE = frozenset(f"torch.{name}.synchronize" for name in ACCELERATORS)
"""Functions that wait for all that is queued."""

CHECKED = frozenset(
    (
        *(f"torch.linalg.{name}" for name in "cholesky eig eigh eigvalsh inv lstsq matrix_rank pinv solve svd".split()),
        *(f"torch.{name}" for name in ("inverse", "pinverse", "svd")),
    )
)
"""Functions that wait for what they compute, where it is on the device: they look for errors."""

ASKS_FOR_ACCELERATOR = frozenset("cuda use_cuda is_cuda has_cuda".split())
"""Names of flags that are true where there is a device to wait for."""

QUIET_ROOTS = (
    "torch.amp.",
    "torch.autocast",
    "torch.autograd.profiler.",
    "torch.backends.",
    "torch.cuda.amp.",
    "torch.cuda.",
    "torch.enable_grad",
    "torch.inference_mode",
    "torch.manual_seed",
    "torch.no_grad",
    "torch.profiler.",
    "torch.set_grad_enabled",
    "torch.distributed.get_",
    "torch.distributed.is_",
)
"""Functions of torch with these prefixes launch nothing."""

SMALL_FUNCTIONS = frozenset(
    "BoolTensor ByteTensor DoubleTensor FloatTensor Generator HalfTensor IntTensor LongTensor Size Tensor abs add all "
    "allclose amax amin any arange argmax argmin as_tensor asarray atleast_1d bernoulli bitwise_and bitwise_not "
    "bitwise_or broadcast_to bucketize cat ceil chunk clamp clip clone concat concatenate cos count_nonzero cross "
    "cumprod cumsum deg2rad detach device diag diagonal diff dim div dot dtype empty empty_like eq equal exp expand "
    "eye finfo flatten flip floor from_numpy full full_like gather ge gt hamming_window hann_window histc hstack "
    "iinfo index_select is_complex is_floating_point is_tensor isclose isfinite isin isinf isnan isneginf isposinf "
    "item le lerp linspace log log10 log1p log2 log_softmax logical_and logical_not logical_or logical_xor logsigmoid "
    "logspace logsumexp lt masked_fill masked_select max maximum mean median meshgrid min minimum moveaxis movedim "
    "mul multinomial multiply nan_to_num narrow ne neg new_empty new_full new_ones new_tensor new_zeros norm normal "
    "normalize not_equal numel one_hot ones ones_like outer pad permute poisson pow prod rad2deg rand rand_like "
    "randint randn randn_like randperm ravel reciprocal relu remainder reshape roll round rsqrt scatter scatter_add "
    "searchsorted select sigmoid sign sin softmax softplus split sqrt square squeeze stack std sub subtract sum "
    "swapaxes t take tan tanh tensor tile tolist transpose tril triu trunc unbind unsqueeze var vdot vector_norm "
    "view_as_complex view_as_real vstack where zeros zeros_like".split()
)
"""Functions of torch, and of its functional module, whose kernels are few and short: by their last names."""

SMALL_LOSSES = frozenset(
    "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cosine_similarity cross_entropy "
    "hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss nll_loss poisson_nll_loss "
    "smooth_l1_loss soft_margin_loss".split()
)
"""Losses of `torch.nn.functional` that are a few short kernels; `gaussian_nll_loss` waits for the variances' signs."""

SMALL_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in "BCELoss BCEWithLogitsLoss CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss Flatten "
    "HingeEmbeddingLoss HuberLoss Identity KLDivLoss L1Loss LogSigmoid LogSoftmax MSELoss MarginRankingLoss NLLLoss "
    "PoissonNLLLoss ReLU Sigmoid SmoothL1Loss SoftMarginLoss Softmax Softplus Tanh Unflatten".split()
)
"""Modules of torch without parameters that are a few short kernels."""

SMALL_ELSEWHERE = frozenset(f"einops.{name}" for name in "pack rearrange reduce repeat unpack".split())
"""Functions of other libraries that launch no more than a short kernel."""

HEAVY_METHODS = frozenset(
    "addbmm addmm addmm_ addmv argsort backward baddbmm bmm cholesky cholesky_inverse cholesky_solve det eig geqrf "
    "inner inverse istft kthvalue logdet lstsq lu lu_solve matmul matrix_exp matrix_power mm mode msort mv orgqr ormqr "
    "pinverse qr quantile slogdet smm solve sort sspaddmm stft svd symeig topk triangular_solve".split()
)
"""Methods of tensors that launch more than a few short kernels, by what they compute."""

OF_MODULES = frozenset(
    "buffers children eval modules named_buffers named_children named_modules named_parameters parameters "
    "requires_grad_ train".split()
)
"""Methods of modules that go over their parts, or switch them, and launch nothing."""

MODES = frozenset("autocast no_sync".split())
"""Methods of training libraries' objects, by names that say which mode their context switches on."""

BARS = re.compile(r"(?:^|_)(?:pbar|tqdm|(?:progress|prog|tqdm)_?bar)$|^_?(?:bar|progress)$")
"""Names of progress bars; `theta_bar` is an average."""

OF_BARS = frozenset("clear close display refresh reset unpause update".split())
"""Methods that move a progress bar, or show it again."""

QUIET_METHODS = frozenset(
    "append appendleft count cpu critical debug detach dim discard element_size endswith error exception extend format "
    "get index info insert is_contiguous is_set isdigit item items join keys lower lstrip ndimension numel numpy "
    "perf_counter pop popitem popleft rstrip set_description set_postfix setdefault size split startswith stride strip "
    "tolist upper values warn warning write zero_grad".split()
)
"""Methods of objects of unknown class that launch nothing, by names that containers, texts, loggers and tensors use."""
