"""Settings of torch's backends that decide which kernels run."""

from __future__ import annotations

TF32_SWITCHES = frozenset({"torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.allow_tf32"})
"""False keeps float32 products, or convolutions, off the tensor cores. Since 1.12 the first is False by default."""

MATMUL_PRECISION = "torch.set_float32_matmul_precision"

TF32_GATE = ">=1.12"
"""Matrix products use full float32 unless they are configured otherwise."""

TF32_STEMS = ("allow_tf32", "float32_matmul_precision", "fp32_precision", "TF32", "tf32")

MIXED_STEMS = ("autocast", "float16", "fp16", "bf16", "GradScaler", "apex", "float64")
"""Parts of names and options in files that choose a precision themselves."""

COMPILE_STEMS = ("compile", "onnx", "TORCHDYNAMO", "Accelerator")
"""Parts of names and options in files that compile something, or leave that to a launcher."""

GRAPH_STEMS = ("CUDAGraph", "cudagraph", "make_graphed_callables", "reduce-overhead", "max-autotune")
"""Parts of names and modes in files that record CUDA graphs, directly or through a compiler."""

CUDNN_SWITCHES = {
    "torch.backends.cudnn.benchmark": (False, "keeps cuDNN from trying its kernels and taking the fastest"),
    "torch.backends.cudnn.deterministic": (True, "leaves only deterministic kernels to cuDNN"),
    "torch.backends.cudnn.enabled": (False, "leaves convolutions to torch's own kernels"),
}
"""Settings, the slow value, and its effect."""

CONVOLUTIONS = tuple(f"torch.nn.{name}" for name in "Conv2d Conv3d ConvTranspose2d ConvTranspose3d".split())
CONVNETS = (
    *(f"resnet{n}" for n in (18, 34, 50, 101, 152)),
    *("mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "efficientnet_b0", "vgg16", "densenet121"),
)
"""Functions of torchvision.models."""

PRECISION_ELSEWHERE = ("Accelerator", "accelerate", "deepspeed", "abric", "dtype", "mixed", "precision")
"""Parts of names and options in files whose precision comes from a launcher, an option, or a name for a dtype."""

COMPILE_GATE = ">=2.0"
"""`torch.compile` exists."""
