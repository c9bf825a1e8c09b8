"""Jinja2 templates: rendered on the controller, with every variable that a template names required."""

from __future__ import annotations

import functools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InputError
from .paths import TEMPLATES

if TYPE_CHECKING:
    import jinja2


@functools.cache
def _environment(root: Path) -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(root),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["quote"] = shlex.quote
    return environment


def render(name: str, /, *, root: Path = TEMPLATES, **variables: Any) -> str:
    """The text of templates/`name`. Raises InputError for a template that is missing, broken or asks for too much."""
    import jinja2

    where = f"templates/{name}"
    try:
        return _environment(root).get_template(name).render(**variables)
    except jinja2.TemplateNotFound as error:
        raise InputError(
            f"the template {error.name} is missing", where=where, remedy="restore it, for instance with git checkout"
        ) from None
    except jinja2.TemplateSyntaxError as error:
        raise InputError(
            "the template is not valid", where=f"{where}:{error.lineno}", found=str(error.message)
        ) from None
    except jinja2.UndefinedError as error:
        raise InputError("the template asks for something that is not given", where=where, found=str(error)) from None
