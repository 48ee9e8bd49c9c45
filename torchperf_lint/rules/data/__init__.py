"""The input pipeline: loaders, workers, pinning."""
