import re

from sandbox.engine.metrics import exposition
from sandbox.engine.runner import Runner
from sandbox.engine.schedule import Schedule
from tests.unit.sandbox.engine.test_schedule import Unit


def test_the_text_format():
    runner = Runner(Schedule(Unit(), 8, 100, 1000, used_tokens=250), 1.0, lambda step: None)
    lines = exposition('a "b"\\', runner, 1000).splitlines()
    assert len(lines) % 3 == 0
    for about, kind, sample in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name = about.split()[2]
        assert about.startswith("# HELP sglang:") and kind.startswith(f"# TYPE {name} ")
        assert re.fullmatch(re.escape(name) + r'\{model_name="a \\"b\\"\\\\"\} [0-9.]+', sample)
    assert 'sglang:token_usage{model_name="a \\"b\\"\\\\"} 0.25' in lines
