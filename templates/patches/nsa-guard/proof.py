"""Which rows of which pool does the fp8 reader give, and how did it read them?

Tensors are stand-ins that know where their rows came from; a reader is judged by the rows it returns, so every way of
writing it is judged alike.
"""

RANK, ROPE = 512, 64
RAW, PACKED = RANK + ROPE, 656
FROM_TABLE, FROM_BATCH = "the flattened page table", "the batch's one-shot indices"
TABLE, TABLE_OF_TWO = "has the table", "has the table, two batches at once"
MISSING = ("metadata without the table", "table is None", "no metadata at all")
MISSING_OF_TWO = "metadata without the table, two batches at once"
POOLS = {"packed": PACKED, "raw": RAW}
PLATFORMS = CUDA, ROCM = "cuda", "rocm"


def observe(load, kit):
    seen = {}
    for platform in PLATFORMS:
        world = World()
        reader = load(surroundings(world, platform, kit), {"torch": torch_of(kit)})
        for metadata in (TABLE, *MISSING, TABLE_OF_TWO, MISSING_OF_TWO):
            # ROCm keeps its fp8 rows raw, always.
            for kind in POOLS if platform == CUDA else ("raw",):
                for degree in (1, 2):
                    seen[metadata, kind, degree, platform] = one(world, reader, kit, metadata, kind, degree)
    return seen


def one(world, reader, kit, metadata, kind, degree):
    """The outcome of one reading: what came back, and the calls made for it."""
    world.width, world.calls = POOLS[kind], []
    world.backend = backend_with(metadata)
    batch = kit.Record(
        "forward_batch",
        attn_backend=world.backend,
        token_to_kv_pool=world.pool,
        fetch_mha_one_shot_kv_indices=world.fetch,
        mha_one_shot_kv_indices=None,
    )
    owner = kit.Record(
        "attention",
        attn_mha=kit.Record("attn_mha", layer_id=7),
        kv_lora_rank=RANK,
        qk_rope_head_dim=ROPE,
        dcp_size=degree,
    )
    owner._get_mla_kv_buffer = lambda indices, dtype, _: world.pool.get_mla_kv_buffer(owner.attn_mha, indices, dtype)
    reader.bind_methods(owner)
    return describe(kit.attempt(lambda: reader.call(owner, batch))), tuple(world.calls)


class World:
    """The pool and the backend of one reading, and what was called."""

    def __init__(self):
        self.calls = []
        self.width = PACKED
        self.backend = None
        self.pool = Pool(self)

    def fetch(self):
        self.calls.append("fetch_mha_one_shot_kv_indices")
        return Indices(FROM_BATCH)

    def dequantise(self, buffer, indices, *_, **__):
        self.calls.append("dequantize_k_cache_paged by " + indices.origin)
        if buffer.shape[-1] != PACKED:
            raise AssertionError(f"dim_quant: {buffer.shape[-1]} != {PACKED}")
        return Rows(RAW, rows=indices.origin, dtype="bf16", scaled=True)


class Indices:
    """Row numbers, known by where they come from."""

    def __init__(self, origin):
        self.origin = origin
        self.shape = (3,)

    def to(self, *_, **__):
        return self

    long = int = contiguous = to


class Rows:
    """Rows of the KV pool: which, which columns, of what type, and whether scales were applied."""

    device = "cuda"

    def __init__(self, width, rows=None, columns=None, dtype="fp8", scaled=False, squeezed=False):
        self.width, self.rows, self.dtype, self.scaled, self.squeezed = width, rows, dtype, scaled, squeezed
        self.columns = columns or (0, width)

    @property
    def shape(self):
        size = self.columns[1] - self.columns[0]
        return (3, size) if self.squeezed else (3, 1, size)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def but(self, **changes):
        names = ("rows", "columns", "dtype", "scaled", "squeezed")
        return Rows(self.width, **{**{name: getattr(self, name) for name in names}, **changes})

    def __getitem__(self, key):
        if isinstance(key, Indices):
            return self.but(rows=key.origin)
        last = key[-1] if isinstance(key, tuple) else None
        if not isinstance(last, slice) or last.step is not None or any(part != slice(None) for part in key[:-1]):
            raise NotImplementedError("it cuts the buffer in a way that the proof does not follow")
        start, stop, _ = last.indices(self.columns[1] - self.columns[0])
        return self.but(columns=(self.columns[0] + start, self.columns[0] + stop))

    def index_select(self, dim, index):
        return self[index]

    def split(self, sizes, dim=-1):
        parts, at = [], self.columns[0]
        for size in sizes:
            parts.append(self.but(columns=(at, at + size)))
            at += size
        return parts

    def squeeze(self, dim=None):
        return self.but(squeezed=True)

    def unsqueeze(self, dim):
        return self.but(squeezed=False)

    def to(self, dtype, *_, **__):
        return self.but(dtype=dtype)

    def contiguous(self):
        return self

    clone = contiguous


class Pool:
    def __init__(self, world):
        self.world = world

    @property
    def nsa_kv_cache_store_fp8(self):
        """The pool's own word for being packed, under the names of all releases."""
        return self.world.width == PACKED

    dsa_kv_cache_store_fp8 = nsa_kv_cache_store_fp8

    def get_key_buffer(self, layer_id):
        self.world.calls.append(f"get_key_buffer({layer_id})")
        return Rows(self.world.width)

    def get_mla_kv_buffer(self, layer, loc, dst_dtype=None):
        self.world.calls.append(f"get_mla_kv_buffer({layer.layer_id}, {loc.origin}, {dst_dtype})")
        rows = Rows(self.world.width, rows=loc.origin, dtype=dst_dtype or "fp8")
        return rows[:, :, :RANK], rows[:, :, RANK:RAW]


class Translator:
    """The pool's virtual row numbers are made physical here. The batch's one-shot indices are physical already."""

    def translate_dcp_read_ids(self, indices):
        return Indices(indices.origin + ", translated")


class TboAttnBackend:
    """Two batches at once: it holds a backend, and no metadata of its own."""

    kv_index_translator = Translator()

    def __init__(self, primary):
        self.primary = primary


class Backend:
    kv_index_translator = Translator()


class Metadata:
    """What lacks an attribute has to raise, so this and the backends are plain objects."""


def torch_of(kit):
    return kit.Record("torch", bfloat16="bf16", float8_e4m3fn="fp8")


def surroundings(world, platform, kit):
    """What the reader's file imports, and the platform that it runs on."""

    def resolve(batch):
        backend = world.backend
        return backend.primary if isinstance(backend, TboAttnBackend) else backend

    return {
        "torch": torch_of(kit),
        "TboAttnBackend": TboAttnBackend,
        "get_attn_backend": lambda: world.backend,
        "resolve_attn_backend": resolve,
        "get_token_to_kv_pool": lambda: world.pool,
        "dequantize_k_cache_paged": world.dequantise,
        "dequantize_k_cache_paged_dsa": world.dequantise,
        "filter_dcp_local_kv_indices": lambda kv_indices: kv_indices,
        "_is_cuda": platform == CUDA,
        "_is_hip": platform == ROCM,
        "_is_npu": False,
        "_use_aiter_gfx95": platform == ROCM,
    }


def backend_with(metadata):
    """Attention backends as releases have them."""
    backend = Backend()
    if metadata != "no metadata at all":
        backend.forward_metadata = Metadata()
    if metadata in (TABLE, TABLE_OF_TWO):
        backend.forward_metadata.page_table_1_flattened = Indices(FROM_TABLE)
    elif metadata == "table is None":
        backend.forward_metadata.page_table_1_flattened = None
    return TboAttnBackend(backend) if metadata in (TABLE_OF_TWO, MISSING_OF_TWO) else backend


def describe(tried):
    if tried.raised:
        return "raises " + tried.raised
    if not isinstance(tried.value, tuple) or len(tried.value) != 2:
        return "returns no pair"
    return tuple(
        (part.rows, part.columns, part.dtype, part.scaled, part.squeezed) if isinstance(part, Rows) else repr(part)
        for part in tried.value
    )


def right(origin, kind):
    """The latent part without its middle dimension, the positions with it; bf16; scaled where the pool has scales."""
    scaled = kind == "packed"
    return ((origin, (0, RANK), "bf16", scaled, True), (origin, (RANK, RAW), "bf16", scaled, False))


def judge(seen):
    result = {case: value[0] for case, value in seen.items()}
    if result[TABLE, "packed", 1, CUDA] != right(FROM_TABLE, "packed"):
        return "unclear", f"with the table and a packed pool it gives {result[TABLE, 'packed', 1, CUDA]}"
    expected = [*MISSING[:2]]
    if result[TABLE_OF_TWO, "packed", 1, CUDA] == right(FROM_TABLE, "packed"):
        expected.append(MISSING_OF_TWO)
    cases = [(metadata, kind) for metadata in expected for kind in POOLS]
    wrong = [case for case in cases if result[(*case, 1, CUDA)] != right(FROM_BATCH, case[1])]
    if wrong:
        metadata, kind = wrong[0]
        return "needs", f"{metadata}, {kind} pool: {short(result[metadata, kind, 1, CUDA])}"
    # Under decode context parallelism a rank holds a share of the rows; any answer there would be a wrong one.
    unchecked = any(not raised(result[(*case, 2, CUDA)]) for case in cases)
    note = " (with no check for --dcp-size above 1)" if unchecked else ""
    return "behaves", "it falls back to the batch's one-shot indices and reads the raw pool as it is" + note


def short(outcome):
    return outcome if isinstance(outcome, str) else "it reads the wrong rows, or reads them the wrong way"


def raised(outcome):
    return isinstance(outcome, str) and outcome.startswith("raises ")


def may_change(case, before, after):
    """Only what failed before or came out wrong, and only into the right rows or a failure that says why."""
    metadata, kind, degree, _ = case
    if metadata == TABLE or (metadata == TABLE_OF_TWO and not raised(before[0])):
        return False
    if raised(after[0]):
        return raised(before[0]) or degree > 1
    return degree == 1 and after[0] == right(FROM_BATCH, kind)
