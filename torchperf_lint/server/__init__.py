"""`torchperf-lint server`: a language server that judges unsaved text with what the project around it says."""
