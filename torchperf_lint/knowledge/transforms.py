"""torchvision's transforms: which convert pixel by pixel, which crop or flip an image, and which datasets call them.

Measured with torchvision 0.28.0, `transforms` and `transforms.v2`, on images of ten modes: a crop or a flip gives the
same tensor, dtype and random stream before the conversion as after it.
"""

from __future__ import annotations

PIPELINES = ("torchvision.transforms.Compose", "torchvision.transforms.v2.Compose")

SEQUENCE = "torch.nn.Sequential"
"""Runs its steps in sequence as well: pipelines on tensors."""

CONVERSIONS = ("ToTensor", "PILToTensor", "ToImage")
"""Convert an image to a tensor."""

TO_FLOAT = frozenset({"ToTensor", "ConvertImageDtype", "ToDtype", "Normalize"})
"""Return, or may return, floating-point pixels."""

NORMALIZERS = frozenset({"torchvision.transforms.Normalize", "torchvision.transforms.v2.Normalize"})
"""Objects that copy their mean and deviation to the tensor's device in each call."""

NORMALIZING = frozenset(
    {
        "torchvision.transforms.functional.normalize",
        "torchvision.transforms.v2.functional.normalize",
        "torchvision.transforms.v2.functional.normalize_image",
    }
)
"""The same as functions of the tensor, the mean and the deviation."""

TENSORS_TO_TENSORS = frozenset(
    f"{module}.{name}"
    for module in ("torchvision.transforms", "torchvision.transforms.v2")
    for name in (
        "Normalize Resize CenterCrop RandomCrop RandomResizedCrop RandomHorizontalFlip RandomVerticalFlip "
        "RandomRotation RandomAffine RandomPerspective RandomErasing ColorJitter Grayscale RandomGrayscale "
        "GaussianBlur Pad ConvertImageDtype RandomInvert RandomSolarize RandomAdjustSharpness RandomAutocontrast"
    ).split()
)
"""Objects that return a tensor where the given one is."""

STATISTICS = ("mean", "std")
"""The parameters of both, in this order."""

IMAGE = ("tensor", "inpt", "image")
"""How the parameter of the image is called, in the first and the second version of the transforms."""

PIXELWISE = frozenset({*CONVERSIONS, *TO_FLOAT, "Grayscale"})
"""Each pixel of the result depends on one pixel, and on no random number."""

CROPS = frozenset({"RandomCrop", "CenterCrop"})
FLIPS = frozenset({"RandomHorizontalFlip", "RandomVerticalFlip"})

RESIZES = frozenset({"RandomResizedCrop", "Resize"})
"""They interpolate, and differently for PIL images than for tensors."""

SHRINKING = (*sorted(CROPS), *sorted(RESIZES))
GEOMETRIC = CROPS | FLIPS | RESIZES

CHOICES = frozenset({"Compose", "RandomApply", "RandomChoice", "RandomOrder"})
"""Run the transforms in the list that is their first argument, or some of these."""

OF_BYTES = frozenset(
    "AutoAugment RandAugment TrivialAugmentWide AugMix RandomPosterize RandomEqualize JPEG "
    "posterize equalize jpeg".split()
)
"""Take a tensor only if it holds bytes."""

PHOTO_DATASETS = frozenset(
    "torchvision.datasets." + name
    for name in (
        "ImageNet Food101 Flowers102 StanfordCars OxfordIIITPet Caltech256 FGVCAircraft Places365 SUN397"
    ).split()
)
"""Datasets of photographs larger than a network's usual input."""

PIL_DATASETS = PHOTO_DATASETS | frozenset(
    "torchvision.datasets." + name
    for name in (
        "CIFAR10 CIFAR100 MNIST FashionMNIST KMNIST QMNIST EMNIST SVHN STL10 DTD GTSRB Caltech101 EuroSAT LSUN CelebA "
        "Country211 FakeData ImageFolder"
    ).split()
)
"""Datasets that pass a PIL image to their `transform`, unless they have a custom `loader`."""
