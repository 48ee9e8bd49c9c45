"""What CUDA does in the operators that the audit finds: they wait there, or only the host's kernel reads."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Verdict(enum.Enum):
    """Whether the read is CUDA's as well."""

    WAITS = "waits on CUDA, at least for some arguments"
    HOST_ONLY = "only the host's kernel reads"


class Judgement(NamedTuple):
    """The verdict on some operators, and what it rests on."""

    operators: str
    verdict: Verdict
    because: str


JUDGEMENTS = (
    Judgement(
        "masked_select repeat_interleave histc normal masked_fill_ index_fill_",
        Verdict.WAITS,
        "each has a row of its own in the list of operations that wait",
    ),
    Judgement(
        "_linalg_svd _linalg_eigh cholesky linalg_lstsq",
        Verdict.WAITS,
        "BatchLinearAlgebra.cpp, shared by both sides: the kernel ends with _linalg_check_errors, which reads infos",
    ),
    Judgement(
        "cholesky_inverse",
        Verdict.HOST_ONLY,
        "its infos lie on the host: a GPU, an H200 with torch 2.11, counts no wait",
    ),
    Judgement(
        "linalg_eig _linalg_eigvals",
        Verdict.WAITS,
        "BatchLinearAlgebra.cpp: eig reads whether the matrix is finite; both check the outcome, or work on the host",
    ),
    Judgement(
        "_linalg_solve_ex linalg_inv_ex",
        Verdict.WAITS,
        "BatchLinearAlgebra.cpp: the outcome is read with check_errors=True; the host's kernel checks pivots always",
    ),
    Judgement(
        "linalg_ldl_solve",
        Verdict.WAITS,
        "it synchronises the device; the host's kernel checks the pivots",
    ),
    Judgement(
        "searchsorted",
        Verdict.WAITS,
        "BucketizationUtils.h of 2.13, shared by both sides: the smallest and largest entry of `sorter` are read",
    ),
    Judgement(
        "segment_reduce",
        Verdict.WAITS,
        "SegmentReduce.cpp, shared by both sides: lengths are checked unless unsafe=True",
    ),
    Judgement(
        "linalg_lu_solve",
        Verdict.HOST_ONLY,
        "BatchLinearAlgebraKernel.cpp: LAPACK would write anywhere if pivots were out of range; CUDA does not check",
    ),
    Judgement(
        "_cholesky_solve_helper",
        Verdict.HOST_ONLY,
        "BatchLinearAlgebra.cpp: only _cholesky_solve_helper_cpu checks infos; CUDA's solver reports to its caller",
    ),
    Judgement(
        "multilabel_margin_loss_forward multilabel_margin_loss_backward",
        Verdict.HOST_ONLY,
        "LossMultiLabelMargin.cpp checks the range of targets; MultiLabelMarginCriterion.cu asserts it on the device",
    ),
    Judgement(
        "multinomial",
        Verdict.HOST_ONLY,
        "since torch 2.6 CUDA checks the weights by _assert_async",
    ),
    Judgement(
        "embedding_renorm_",
        Verdict.HOST_ONLY,
        "Embedding.cpp reads norms one by one; Embedding.cu of 2.6 does not wait",
    ),
    Judgement(
        "rrelu_with_noise rrelu_with_noise_",
        Verdict.HOST_ONLY,
        "Activation.cpp makes tensors of the bounds and reads their mean; RreluWithNoise.cu takes them as numbers",
    ),
    Judgement(
        "std var",
        Verdict.HOST_ONLY,
        "ReduceOps.cpp: std_var_all_cpu is chosen for host tensors alone",
    ),
)
