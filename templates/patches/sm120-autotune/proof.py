"""Does the autotune gate let flashinfer_cutlass through on SM120, and every other input as before?

The gate takes a model runner and gives a bool. Releases read the flags from its server_args, or from get_exec() and
get_spec(); all of them are given, and hold the same.
"""

TARGET = "flashinfer_cutlass"
LISTED = "flashinfer_trtllm"  # on the list of every release that has one
NEVER = ("triton", "auto", "deep_gemm")  # on the list of none
RUNNERS = (
    TARGET, LISTED, *NEVER, "flashinfer_trtllm_routed", "flashinfer_mxfp4", "flashinfer_cutedsl", "flashinfer_megamoe",
    "triton_kernel", "cutlass", "marlin",
)  # fmt: skip
CAPABILITIES = ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1))
SM120 = (12, 0)
PLAIN = {
    "disabled": False,
    "speculative": False,
    "draft": False,
    "for_draft": False,
    "a2a": "none",
    "deterministic": False,
    "sharded": False,
    "quantization": None,
    "gemm": False,
    "device": "cuda",
}
# Inputs other than runner and capability: what differs from a plain start.
SETTINGS = {
    "plain": {},
    "disabled": {"disabled": True},
    "draft": {"speculative": True, "draft": True},
    "target of a draft": {"speculative": True},
    "draft pass": {"speculative": True, "for_draft": True},
    "deepep": {"a2a": "deepep"},
    "deterministic": {"deterministic": True},
    "sharded kv": {"sharded": True},
    "fp4": {"quantization": "modelopt_fp4", "gemm": True},
    "fp8": {"quantization": "modelopt_fp8", "gemm": True},
    "mxfp8": {"quantization": "mxfp8", "gemm": True},
    "fp4, other gemm": {"quantization": "modelopt_fp4"},
    "cpu": {"device": "cpu"},
}


class World:
    """One input at a time; every stand-in reads it from here."""

    def __init__(self):
        self.given = PLAIN
        self.runner = TARGET
        self.capability = SM120
        self.asked_for_runner = False


def flags_of(world, kit):
    """The server's flags, under the name of every release."""

    class Flags(kit.Record):
        speculative_moe_runner_backend = None
        speculative_moe_a2a_backend = None
        attention_backend = "flashinfer"
        disable_flashinfer_autotune = property(lambda self: world.given["disabled"])
        enable_flashinfer_autotune = property(lambda self: not world.given["disabled"])
        moe_a2a_backend = property(lambda self: world.given["a2a"])
        enable_deterministic_inference = property(lambda self: world.given["deterministic"])
        enable_kv_cache_sharding = property(lambda self: world.given["sharded"])
        device = property(lambda self: world.given["device"])
        quantization = property(lambda self: world.given["quantization"])

        @property
        def moe_runner_backend(self):
            world.asked_for_runner = True
            return world.runner

    flags = Flags("flags")
    # get_exec().kernel, get_exec().moe and their kin: every section holds the same flags.
    flags.kernel = flags.moe = flags.deterministic = flags.speculative = flags.parallel = flags
    return flags


def runner_of(world, flags, kit):
    class Algorithm(kit.Record):
        def is_eagle(self):
            return world.given["speculative"]

        is_speculative = is_eagle

        def is_none(self):
            return not world.given["speculative"]

        def is_standalone(self):
            return False

        is_ngram = is_standalone

    class ModelRunner(kit.Record):
        is_draft_worker = property(lambda self: world.given["draft"])
        device = property(lambda self: world.given["device"])

    runner = ModelRunner(
        "model_runner", server_args=flags, spec_algorithm=Algorithm("spec"), model_config=flags, tp_rank=0
    )
    runner.model_runner = runner
    return runner


def observe(load, kit):
    world = World()
    flags = flags_of(world, kit)
    runner = runner_of(world, flags, kit)
    names, modules = surroundings(world, flags, kit.Record)
    gate = load(names, modules)
    for name, value in gate.class_constants().items():
        setattr(runner, name, value)
    gate.bind_methods(runner)
    takes_draft = "for_speculative_draft" in gate.parameters
    seen = {}
    for setting, differs in SETTINGS.items():
        world.given = {**PLAIN, **differs}
        extra = {"for_speculative_draft": world.given["for_draft"]} if takes_draft else {}
        call = lambda: gate.call(runner, **extra)  # noqa: B023, E731 - called at once
        for world.runner in RUNNERS:
            for world.capability in CAPABILITIES:
                seen[setting, world.runner, world.capability] = answer(kit.attempt(call), kit)
    seen["asked for the runner"] = world.asked_for_runner
    return seen


def surroundings(world, flags, record):
    """What the gate's file imports: names of the module, and modules imported inside the function."""

    class Properties(record):
        major = property(lambda self: world.capability[0])
        minor = property(lambda self: world.capability[1])

    class Backend(record):
        def is_flashinfer_cutlass(self):
            return world.given["gemm"]

        is_flashinfer = is_flashinfer_cutlass

        def is_flashinfer_cutedsl(self):
            return False

    def get_capability(*_):
        return world.capability

    def on_major(*majors):
        return lambda *_: world.capability[0] in majors

    backend, properties = Backend("gemm_backend"), Properties("properties")
    torch = record(
        "torch",
        cuda=record(
            "torch.cuda",
            get_device_capability=get_capability,
            is_available=lambda: True,
            get_device_properties=lambda *_: properties,
        ),
    )
    device = {
        "is_sm100_supported": on_major(10),
        "is_sm120_supported": on_major(12),
        "is_blackwell": on_major(10, 11, 12),
        "get_device_capability": get_capability,
    }
    gemm = {
        "get_fp4_gemm_runner_backend": lambda: backend,
        "get_fp8_gemm_runner_backend": lambda: backend,
        "resolve_mxfp8_dense_gemm_backend": lambda: backend,
        "flashinfer_per_tensor_fp8_supported": lambda: world.given["gemm"],
    }
    readers = ("get_exec", "get_spec", "get_parallel", "get_server_args", "get_global_server_args")
    names = {"torch": torch, **device, **gemm, **{name: lambda: flags for name in readers}}
    quantization = "sglang.srt.layers.quantization."
    modules = {
        "torch": torch,
        "sglang.srt.utils": record("utils", **device),
        "sglang.srt.utils.common": record("utils", **device),
        quantization + "fp4_utils": record("fp4_utils", **gemm),
        quantization + "fp8_utils": record("fp8_utils", **gemm),
    }
    return names, modules


def answer(tried, kit):
    if tried.raised:
        return "raises " + tried.raised
    return "unknown" if isinstance(tried.value, kit.Unknown) else bool(tried.value)


def judge(seen):
    def at(runner, capability=SM120, setting="plain"):
        return seen[setting, runner, capability]

    strange = sorted({str(value) for value in seen.values() if value is not True and value is not False})
    if strange:
        return "unclear", "the gate does not answer yes or no: " + "; ".join(strange[:2])
    if not seen["asked for the runner"] and at(TARGET):
        return "unrelated", "the gate of this release does not look at the MoE runner"
    if at(LISTED, setting="disabled") or at(TARGET, setting="disabled"):
        return "unclear", "the gate says yes although autotune is disabled"
    if at(TARGET, (8, 0)) or at(LISTED, (8, 0)):
        return "unclear", "the gate says yes on capability (8, 0), which no release does"
    if not at(LISTED, (10, 0)):
        return "unclear", f"the gate says no to {LISTED} on capability (10, 0), which every release lets through"
    open_to = [runner for runner in NEVER if at(runner)]
    if open_to:
        return "unclear", f"the gate also says yes to {', '.join(open_to)} on SM120"
    if not at(LISTED):
        return "unclear", f"the gate says no to {LISTED} on SM120, so an entry in its list would not be enough"
    if at(TARGET):
        return "behaves", f"the gate says yes to {TARGET} on SM120"
    return "needs", f"the gate says no to {TARGET} on SM120"


def may_change(case, before, after):
    """Only the target's own cases, and none where autotune is disabled or the capability too low."""
    return case[1] == TARGET and before is False and case[0] != "disabled" and case[2][0] >= 9
