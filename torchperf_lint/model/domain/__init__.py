"""The value lattice, and the interfaces between the packages of the model."""
