"""Layers whose parameters make other parameters redundant."""

from __future__ import annotations

CONVOLUTIONS = frozenset(
    f"torch.nn.{name}" for name in "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d".split()
)
BIAS_PLACE = 7
"""The 0-based position of their `bias`, which is True by default."""

BATCH_NORMS = frozenset(f"torch.nn.{name}" for name in "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm".split())
"""Subtract the mean of each channel, and with it any constant that was added to the channel."""

WEIGHTED = frozenset(
    f"torch.nn.{name}"
    for name in "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Linear Bilinear Embedding "
    "EmbeddingBag LayerNorm GroupNorm BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm RNN LSTM GRU RNNCell LSTMCell "
    "GRUCell MultiheadAttention Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer "
    "TransformerDecoderLayer PReLU AdaptiveLogSoftmaxWithLoss".split()
)
"""Layers of torch that have parameters, and initialise them when they are made."""

SWITCHES: dict[str, tuple[tuple[str, int], ...]] = {
    "torch.nn.LayerNorm": (("elementwise_affine", 2),),
    "torch.nn.GroupNorm": (("affine", 3),),
    **dict.fromkeys(BATCH_NORMS, (("affine", 3), ("track_running_stats", 4))),
}
"""The arguments, each with its 0-based position, that leave a layer without parameters and buffers if all are False."""

GIVEN_WEIGHTS = dict.fromkeys(("torch.nn.Embedding", "torch.nn.EmbeddingBag"), ("_weight", 7))
"""The argument, with its 0-based position, that such a layer takes its weights from instead of making some."""

PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})

PRETRAINED = frozenset(
    {"lpips.LPIPS", "timm.create_model", "torch.hub.load", "torch.hub.load_state_dict_from_url", "clip.load"}
)
"""Functions and classes that read a model's weights from a file."""

MODEL_ZOO = "torchvision.models."
ZOO_NAMES = tuple("alexnet convnext densenet efficientnet inception mobilenet resnet swin vgg vit_".split())
"""How the names of the functions of `torchvision.models` begin that make a whole network."""

WEIGHTED_LOSSES = frozenset(
    f"torch.nn.{name}" for name in "CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss MultiMarginLoss".split()
)
LOSS_WEIGHTS = ("weight", "pos_weight")
"""The arguments of these losses that become buffers."""

FILTERS = frozenset(
    f"torchaudio.transforms.{name}"
    for name in "Spectrogram InverseSpectrogram MelSpectrogram MelScale InverseMelScale MFCC LFCC GriffinLim "
    "Resample".split()
)
"""Modules without parameters that work out windows, filter banks or kernels when they are made."""
