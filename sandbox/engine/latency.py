"""How long a step of the simulated engine takes. Everything here is SIMULATED: a fit, not a measurement.

Fitted to the recorded series of GLM-5-NVFP4 on eight RTX PRO 6000 (SM120, PCIe, TP 8, no CUDA graphs; one run
a level, no repeats):

- one request: 121.6 ms an output token (236 tokens in 28.7 s);
- 256/128 tokens, seed 1, autotuned, no radix cache: 1846, 2800 and 3740 tok/s in all at 256, 512 and 1024
  prompts; with the radix cache 700 at 64;
- 128/128 tokens: 1383 and 2205 tok/s in all at 256 and 512 prompts, about 1600 of output at 1024;
- without autotune: 757 tok/s in all at 64 prompts, 879 at 256. So an untuned MoE kernel costs nothing while
  batches are small and grows steeply beyond.

tests/unit/sandbox/engine/test_latency.py holds the model to these points within a stated tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_STEP_MS = 121.6
# A launch-bound floor that settles once a few dozen requests share the launches ...
SETTLING_MS = 20.0
SETTLES_OVER = 32
# ... and what each further running request adds to every step.
PER_REQUEST_MS = 0.165
# Without autotune, each running request beyond this many adds so much more.
UNTUNED_BEYOND = 64
UNTUNED_PER_REQUEST_MS = 3.2

PREFILL_LAUNCH_MS = 120.0
PREFILL_TOKENS_PER_S = 5600.0


@dataclass(frozen=True)
class Latency:
    """Step times, in seconds of simulated time. `tuned` says whether FlashInfer's autotune ran."""

    tuned: bool

    def decode_step(self, running: int) -> float:
        """One decode step, which gives each of `running` requests one token."""
        further = running - 1
        step = FIRST_STEP_MS + SETTLING_MS * further / (further + SETTLES_OVER) + PER_REQUEST_MS * further
        if not self.tuned:
            step += UNTUNED_PER_REQUEST_MS * max(0, running - UNTUNED_BEYOND)
        return step / 1000

    def prefill_step(self, tokens: int) -> float:
        """One prefill step over `tokens` prompt tokens."""
        return PREFILL_LAUNCH_MS / 1000 + tokens / PREFILL_TOKENS_PER_S
