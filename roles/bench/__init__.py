"""The ladder: bench_serving at rising levels, each a test of stability before the next."""
