"""TPL7xx: memory that is kept, given back or computed for nothing."""
