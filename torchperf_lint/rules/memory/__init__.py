"""TPL7xx: memory that is retained, released or computed needlessly."""
