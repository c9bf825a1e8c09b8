"""A stand-in for `sglang.launch_server` on a machine without GPUs. Everything that it answers is SIMULATED.

Flags, log lines and the autotune gate come from the installed SGLang's own source, which is read and never
imported. Run it as `python -m sandbox.engine` with the flags of launch_server.
"""
