"""Memory idioms: autograd graphs that outlive their use."""
