"""Data loading idioms: workers, iteration over loaders, code that makes samples."""
