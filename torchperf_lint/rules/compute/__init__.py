"""TPL6xx: how the device computes: precision, kernels, compilation, debugging aids."""
