"""Transfer idioms: copies between host and device, and tensors built on the wrong side."""
