"""Source text and its libcst trees: bytes and spans, statement-local trees, and edit builders."""
