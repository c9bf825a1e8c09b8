import json

import pytest

from sandbox.engine import settings
from sandbox.engine.arguments import parse
from tests.unit.sandbox.engine.trees import BY_HAND, GATE, LOG_LINES, release, write

RUNNER = "sglang/srt/model_executor/gated_runner.py"


@pytest.fixture
def settle(tmp_path):
    """Settings of a small release for a small model: settle("--tp", "8", gate=..., more={...})."""
    model = tmp_path / "model"
    model.mkdir()
    config = {"architectures": ["Glm"], "num_hidden_layers": 78, "max_position_embeddings": 1000}
    (model / "config.json").write_text(json.dumps(config))

    def make(*flags, gate=GATE, scale=1e6, **more):
        files = {**BY_HAND, **LOG_LINES, RUNNER: gate}
        tree = write(tmp_path / "tree", files)
        parsed = parse(tree, ["--model-path", str(model), *flags])
        made = settings.settle(release(tree.root), tree, parsed, scale)
        made.values.update(more)
        return made

    return make
