"""The environment that the engine runs from: built whole from a lock, beside the others, and linked."""
