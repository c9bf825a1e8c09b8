"""Python source as data: its exact bytes, a place found by its shape, one function run by itself and judged."""
