"""The modules of the report: markup, plots, timelines and sections, each a pure function from proofs to text."""
