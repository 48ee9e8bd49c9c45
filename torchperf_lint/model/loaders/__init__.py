"""Where the batches of data loaders go, and how their samples are made."""
