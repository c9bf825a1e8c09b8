import argparse

import pytest

from sandbox.engine.arguments import command_line, declared, definitions, parse, renamed
from sandbox.errors import SandboxError
from tests.unit.sandbox.engine.trees import ANNOTATED, BY_HAND, write

NEEDED = ["--model", "m"]


@pytest.fixture(params=["by hand", "annotated"])
def tree(request, tmp_path):
    return write(tmp_path, BY_HAND if request.param == "by hand" else ANNOTATED)


@pytest.fixture
def by_hand(tmp_path):
    return write(tmp_path, BY_HAND)


@pytest.fixture
def annotated(tmp_path):
    return write(tmp_path, ANNOTATED)


def refused(tree, argv, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(tree, argv)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: launch_server.py")
    return said.strip().splitlines()[-1]


@pytest.mark.parametrize("flag", ["--tp", "--tp-size", "--tensor-parallel-size", "--tensor-p"])
def test_flags_and_their_unique_beginnings(tree, flag):
    parsed = vars(parse(tree, [*NEEDED, flag, "8"]))
    assert 8 in (parsed.get("tp_size"), parsed.get("tensor_parallel_size"))


def test_a_wrong_choice_is_refused_as_argparse_does(tree, capsys):
    last = refused(tree, [*NEEDED, "--moe-runner-backend", "nope"], capsys)
    assert last.startswith("launch_server.py: error: argument --moe-runner-backend: invalid choice: 'nope'")
    assert "'flashinfer_cutlass'" in last


def test_an_unknown_flag_is_refused(tree, capsys):
    assert refused(tree, [*NEEDED, "--nope"], capsys) == "launch_server.py: error: unrecognized arguments: --nope"


def test_a_missing_required_flag_is_named(tree, capsys):
    assert "required: --model-path/--model" in refused(tree, [], capsys)


def test_a_value_of_the_wrong_type_is_refused(tree, capsys):
    assert "invalid int value: 'x'" in refused(tree, [*NEEDED, "--tp-size", "x"], capsys)


def test_help_prints_though_it_holds_percent_signs(by_hand, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(by_hand, ["--help"])
    assert ended.value.code == 0
    assert "100% needed" in capsys.readouterr().out


def test_choices_from_concatenation_and_from_a_registry(by_hand):
    choices = {flag: a.keywords.get("choices") for a in definitions(by_hand) for flag in a.flags}
    assert choices["--nsa-prefill-backend"] == ["flashmla_kv", "trtllm", "aiter"]
    assert choices["--reasoning-parser"] == ["deepseek-r1", "glm45"]


def test_defaults_converters_and_actions_are_the_release_s_own(by_hand, capsys):
    parsed = parse(by_hand, [*NEEDED, "--quantization", "None", "--lora-paths", '{"a": 1}', "b", "--old-flag"])
    assert parsed.port == 30000 and parsed.limits == ["a", "b"]
    assert parsed.quantization is None
    assert parsed.lora_paths == [{"a": 1}, "b"]
    assert "--old-flag is deprecated" in capsys.readouterr().out


def test_a_bad_json_value_is_refused(by_hand, capsys):
    assert "--limits" in refused(by_hand, [*NEEDED, "--limits", "{"], capsys)


def test_annotated_fields_become_flags_by_their_type(annotated):
    parsed = vars(parse(annotated, [*NEEDED, "--quiet", "--names", "a", "b", "--kind", "two", "--ratio", "0.5"]))
    assert (parsed["quiet"], parsed["names"], parsed["kind"], parsed["ratio"]) == (True, ["a", "b"], "two", 0.5)
    assert parsed["extra"] is False and parsed["mode"] == "none"


def test_fields_without_a_command_line_have_no_flag(annotated):
    flags = {flag for argument in definitions(annotated) for flag in argument.flags}
    assert "--hidden" not in flags and "--noted" not in flags


def test_choices_that_only_an_environment_would_add_are_left_out(annotated):
    (argument,) = (a for a in definitions(annotated) if "--moe-runner-backend" in a.flags)
    assert argument.keywords["choices"] == ["auto", "flashinfer_cutlass"]
    assert argument.keywords["default"] == "auto"


def test_declared_fields_are_in_order_with_their_defaults(by_hand):
    fields = declared(by_hand)
    assert [*fields][:4] == ["model_path", "tokenizer_path", "host", "port"]
    assert fields["port"] == 30000 and fields["model_path"] is None


def test_options_that_fill_a_field_of_another_name(tmp_path):
    assert renamed(write(tmp_path / "old", BY_HAND)) == {"tp_size": "tensor_parallel_size"}
    assert renamed(write(tmp_path / "new", ANNOTATED)) == {}


def test_config_files_are_refused_by_name(by_hand, capsys):
    assert "--config" in refused(by_hand, [*NEEDED, "--config", "x.yaml"], capsys)


@pytest.mark.parametrize("text", ["", "class ServerArgs:\n    pass\n", "def broken(:\n"])
def test_a_source_that_defines_no_flags_is_an_error_not_a_traceback(tmp_path, text):
    tree = write(tmp_path, {"sglang/srt/server_args.py": text})
    with pytest.raises(SandboxError, match="cannot read the flags"):
        command_line(tree)


def test_the_parser_is_launch_server_s(by_hand):
    parser = command_line(by_hand)
    assert isinstance(parser, argparse.ArgumentParser) and parser.prog == "launch_server.py"
