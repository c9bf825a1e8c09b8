import pytest

from sandbox.engine.logtext import LogText, NoSuchLine
from tests.unit.sandbox.engine.trees import LOG_LINES, release, write


@pytest.fixture
def text(tmp_path):
    write(tmp_path, LOG_LINES)
    return LogText.of(release(tmp_path))


def test_a_plain_line(text):
    assert text.line("Init torch distributed begin", {}) == "Init torch distributed begin."


def test_placeholders_are_filled_by_what_stands_before_them_in_the_release_s_format(text):
    values = {"elapsed=": 1.5, "mem usage=": 0.8}
    assert text.line("Init torch distributed ends", values) == (
        "Init torch distributed ends. elapsed=1.50 s, mem usage=0.80 GB"
    )


def test_placeholders_may_be_named_by_their_own_expression(text):
    values = {"elapsed=": 2, "type=": "Glm", "{quant_str": "quant=fp4, ", "avail mem=": 38.5}
    assert text.line("Load weight end", values) == (
        "Load weight end. elapsed=2.00 s, type=Glm, quant=fp4, avail mem=38.50 GB"
    )


def test_the_line_that_holds_a_text_is_taken(text):
    line = text.line("KV Cache is allocated", {"#tokens:": 9, "KV size:": 1}, holding="KV size")
    assert line == "KV Cache is allocated. #tokens: 9, KV size: 1.00 GB"


def test_a_placeholder_that_nothing_fits_shows(text):
    assert text.line("Load weight begin", {}) == "Load weight begin. avail mem=? GB"


def test_a_value_of_another_kind_than_the_format_wants_is_shown_as_it_is(text):
    assert text.line("Load weight begin", {"avail mem=": "much"}) == "Load weight begin. avail mem=much GB"


def test_old_style_placeholders_are_left_to_the_caller(text):
    assert text.line("Running FlashInfer autotune", {}).endswith("with cache: %s")


def test_a_line_that_the_release_does_not_have(text):
    with pytest.raises(NoSuchLine, match=r"0\.5\.9"):
        text.line("Nothing begins so", {})


def test_source_that_does_not_parse_around_the_line_is_passed_over(tmp_path):
    write(tmp_path, {"sglang/srt/managers/scheduler.py": 'logger.info("Cut here {\n'})
    with pytest.raises(NoSuchLine):
        LogText.of(release(tmp_path)).line("Cut here", {})
