"""Source text and its libcst side: bytes and spans, statement-local trees, and edit builders."""
