import pytest

from blackstart.errors import InputError
from blackstart.render import render


@pytest.fixture
def template(tmp_path):
    def template(text, name="a.j2"):
        (tmp_path / name).write_text(text)
        return {"root": tmp_path}

    return template


def test_a_template_becomes_text_with_its_final_newline(template):
    assert render("a.j2", **template("x {{ y }}\n"), y=5) == "x 5\n"


def test_blocks_leave_no_lines_behind(template):
    text = "{% for n in ns %}\n  {% if n > 1 %}\nn {{ n }}\n  {% endif %}\n{% endfor %}\nend\n"
    assert render("a.j2", **template(text), ns=[1, 2, 3]) == "n 2\nn 3\nend\n"


def test_nothing_is_escaped_but_on_request(template):
    root = template("{{ v }} {{ v | quote }}")
    assert render("a.j2", **root, v="<a b>'") == "<a b>' '<a b>'\"'\"''"


def test_a_variable_may_have_any_name(template):
    assert render("a.j2", **template("{{ name }}"), name="x") == "x"


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("a\n{% if %}\n", "templates/a.j2:2", "not valid"),
        ("a\n{{ x\n", "templates/a.j2:2", "not valid"),
        ("{{ missing }}", "templates/a.j2", "asks for something that is not given"),
        ("{{ given.missing.deeper }}", "templates/a.j2", "asks for something"),
        ("{% include 'b.j2' %}", "templates/a.j2", "the template b.j2 is missing"),
        ("{{ 1 | nofilter }}", "templates/a.j2", "not valid"),
    ],
)
def test_a_broken_template_is_an_input_error(template, text, where, says):
    with pytest.raises(InputError, match=says) as caught:
        render("a.j2", **template(text), given={})
    assert caught.value.where.startswith(where)


@pytest.mark.parametrize("name", ["none.j2", "../a.j2", "/etc/passwd"])
def test_a_missing_template_is_named(tmp_path, name):
    with pytest.raises(InputError, match="is missing") as caught:
        render(name, root=tmp_path)
    assert caught.value.where == f"templates/{name}"


def test_the_projects_templates_are_all_valid():
    from blackstart.paths import TEMPLATES
    from blackstart.render import _environment

    names = [str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.j2")]
    assert names
    for name in names:
        _environment(TEMPLATES).get_template(name)
