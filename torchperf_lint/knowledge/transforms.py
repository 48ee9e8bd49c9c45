"""torchvision's transforms: which convert pixel by pixel, which keep part of an image, and who hands them images.

That a crop or a flip gives the same tensor, dtype and random stream before the conversion as after it was measured with
torchvision 0.28.0, `transforms` and `transforms.v2`, on images of ten modes.
"""

from __future__ import annotations

PIPELINES = ("torchvision.transforms.Compose", "torchvision.transforms.v2.Compose")

SEQUENCE = "torch.nn.Sequential"
"""Runs its steps one after the other as well, those of a pipeline that works on tensors."""

CONVERSIONS = ("ToTensor", "PILToTensor", "ToImage")
"""Make a tensor of an image."""

TO_FLOAT = frozenset({"ToTensor", "ConvertImageDtype", "ToDtype", "Normalize"})
"""Give, or may give, floating-point pixels."""

PIXELWISE = frozenset({*CONVERSIONS, *TO_FLOAT, "Grayscale"})
"""Each pixel of the result is made of one pixel, and nothing is drawn."""

CROPS = frozenset({"RandomCrop", "CenterCrop"})
FLIPS = frozenset({"RandomHorizontalFlip", "RandomVerticalFlip"})

RESIZES = frozenset({"RandomResizedCrop", "Resize"})
"""They interpolate, and images of PIL are not interpolated as tensors are."""

SHRINKING = (*sorted(CROPS), *sorted(RESIZES))
GEOMETRIC = CROPS | FLIPS | RESIZES

PHOTO_DATASETS = frozenset(
    "torchvision.datasets." + name
    for name in (
        "ImageNet Food101 Flowers102 StanfordCars OxfordIIITPet Caltech256 FGVCAircraft Places365 SUN397"
    ).split()
)
"""Datasets of photographs that are larger than what networks are given."""

PIL_DATASETS = PHOTO_DATASETS | frozenset(
    "torchvision.datasets." + name
    for name in (
        "CIFAR10 CIFAR100 MNIST FashionMNIST KMNIST QMNIST EMNIST SVHN STL10 DTD GTSRB Caltech101 EuroSAT LSUN CelebA "
        "Country211 FakeData ImageFolder"
    ).split()
)
"""Datasets that hand their `transform` an image of PIL, unless they are given a `loader`."""
