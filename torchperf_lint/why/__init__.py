"""`torchperf-lint why`: why a row is reported, or is not."""
