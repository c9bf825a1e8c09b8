import pytest

from blackstart.errors import InputError
from roles.server import systemd

from . import unitfile

WORDS = [
    "--tp-size",
    "8",
    "",
    "a b",
    '{"enable_multithread_load": true, "num_threads": 16}',
    "it's",
    'say "hi"',
    "back\\slash",
    "ends with \\",
    "\\n is no line end",
    "$HOME and ${HOME} and $$",
    "100% %h %% %n",
    ";",
    "a;b",
    "|",
    "&&",
    "*",
    "~",
    "#not a comment",
    "-dash",
    "@at",
    "!bang",
    "tab\there",
    "line\nbreak",
    "carriage\rreturn",
    "bell\a and escape\x1b",
    " leading and trailing ",
    "ünïcödé 漢字 🚀",
    "`id` $(id)",
    "a=b",
    "x" * 5000,
]

UNIT = """[Service]
Type=exec
{environment}
ExecStart={command_line}
"""


@pytest.mark.parametrize("word", WORDS)
def test_a_word_comes_back_as_it_was_by_systemds_rules(word):
    assert unitfile.parsed_by_rules(systemd.command_line(["/bin/echo", word])) == ["/bin/echo", word]


def test_a_quoted_word_stands_on_one_line():
    for word in WORDS:
        assert len(systemd.quote(word).splitlines()) <= 1


def test_plain_words_stay_readable():
    assert systemd.command_line(["/bin/x", "--tp-size", "8", "/srv/models/GLM-5"]) == (
        "/bin/x --tp-size 8 /srv/models/GLM-5"
    )


def test_a_whole_command_and_its_environment_come_back_from_systemd_itself():
    values = {f"V{number}": word for number, word in enumerate(WORDS) if len(word.splitlines()) <= 1}
    environment = "\n".join("Environment=" + systemd.quote_assignment(name, value) for name, value in values.items())
    argv = ["/bin/echo", *WORDS]
    line = systemd.command_line(argv)
    if not unitfile.installed():
        assert unitfile.parsed_by_rules(line) == argv
        return
    found, assignments = unitfile.parsed_by_systemd(UNIT.format(environment=environment, command_line=line))
    assert found == argv
    assert assignments == values


def test_a_null_character_is_refused():
    with pytest.raises(InputError, match="null character"):
        systemd.quote("a\0b")
