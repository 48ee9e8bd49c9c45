"""Functions that write files, or copy a whole model, and return when that is done."""

from __future__ import annotations

WRITERS = frozenset(
    {
        "torch.save",
        "torchvision.utils.save_image",
        "torchaudio.save",
        "matplotlib.pyplot.savefig",
        "cv2.imwrite",
        "imageio.imwrite",
        "skimage.io.imsave",
        "numpy.save",
        "numpy.savez",
        "numpy.savez_compressed",
        "numpy.savetxt",
        "json.dump",
        "pickle.dump",
        "joblib.dump",
        "safetensors.torch.save_file",
    }
)
"""They write their argument to a file."""

COPIES = "copy.deepcopy"
"""Copies a model, or its state, tensor by tensor."""
