"""``studio bench`` and ``studio eval``: a table of measurements, each with a command generated from its parameters."""

import inspect
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from studio.commands.common import Json, Save, show
from studio.core.errors import BadOption


def add_measurement(app: typer.Typer, name: str, setting: type[Any], target: str) -> None:
    """Add the command ``name``, whose options are the annotated fields of a dataclass.

    Args:
        setting: its docstring is the command's help. Properties that count, where present: ``result_name`` (the name
            in bench/results) and ``is_partial`` (refuses --save), and a
            method ``plots`` (writes pictures of what was saved).
        target: ``module:function`` under studio.bench, called with the parameters; its figures are shown. A list of
            ``failures`` in them that is not empty makes the exit status 1.
    """
    hints = get_type_hints(setting, include_extras=True)
    options = [field for field in fields(setting) if get_origin(hints[field.name]) is Annotated]

    def command(**values: Any) -> None:
        as_json, save = values.pop("as_json"), values.pop("save")
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        asked = setting(**{key: value for key, value in given.items() if value is not None}, quiet=as_json)
        if save and getattr(asked, "is_partial", False):
            raise BadOption("a partial run or a run with a planted fault is not a result", "leave out --save")
        module, _, function = target.partition(":")
        figures = getattr(import_module(f"studio.bench.{module}"), function)(asked)
        show(getattr(asked, "result_name", name), figures, as_json, save)
        for path in asked.plots(figures) if save and hasattr(asked, "plots") else ():
            typer.echo(f"written to {path}", err=True)
        if figures.get("failures"):
            raise typer.Exit(1)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(
            field.name,
            keyword,
            default=inspect.Parameter.empty if field.default is MISSING else _shown_default(field.default),
            annotation=_listed(hints[field.name]),
        )
        for field in options
    ]
    parameters += [
        inspect.Parameter(key, keyword, default=False, annotation=kind)
        for key, kind in (("as_json", Json), ("save", Save))
    ]
    command.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = inspect.cleandoc(setting.__doc__ or "").partition("\n\nAttributes:")[0]
    app.command(name)(command)


def _shown_default(value: Any) -> Any:
    return None if isinstance(value, tuple) else value


def _listed(hint: Any) -> Any:
    """The annotation as typer wants it: a variable-length tuple is an optional list."""
    kind, *extras = get_args(hint)
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        item = get_args(kind)[0]
        return Annotated[list[item] | None, *extras]  # pyright: ignore[reportInvalidTypeForm]
    return hint
