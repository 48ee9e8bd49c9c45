"""Where the batches of data loaders go, and what their samples are made of."""
