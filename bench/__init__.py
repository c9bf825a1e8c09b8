"""The project's own benchmarks."""
