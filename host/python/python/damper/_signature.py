"""The signature and the help of `damper.fit`, with all settings by group."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any, Callable, TypeVar

from . import _settings

#: A function, whose type stays as it is for type checkers.
Function = TypeVar("Function", bound=Callable[..., Any])
MARK = "    SETTINGS\n"


def described(function: Function) -> Function:
    """Adds the settings to the signature and the docstring of `function`, which takes them as keywords.

    Type checkers read them in `_settings.py`. Notebooks, `help` and `inspect` read them here.
    """
    own = [one for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
    groups = _groups()
    names = [name for settings in groups.values() for name in settings]
    kinds = _settings.Settings.__annotations__
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_text(kinds[name])) for name in names]
    function.__signature__ = inspect.Signature([*own, *added], return_annotation="Run")  # type: ignore[attr-defined]
    if function.__doc__:
        function.__doc__ = function.__doc__.replace(MARK, _help(groups))
    return function


def _text(kind: Any) -> str:
    return getattr(kind, "__forward_arg__", str(kind))


def _groups() -> dict[str, dict[str, str]]:
    """Returns the description of each setting, by group. Without the source, all are in one group without descriptions."""
    try:
        source = inspect.getsource(_settings)
    except OSError:
        return {"Settings": dict.fromkeys(_settings.Settings.__annotations__, "")}
    lines = source.splitlines()
    (settings,) = [one for one in ast.parse(source).body if isinstance(one, ast.ClassDef)]
    groups: dict[str, dict[str, str]] = {}
    name = group = ""
    for statement in settings.body[1:]:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, above = statement.target.id, lines[statement.lineno - 2].strip()
            group = above.strip("# .") if above.startswith("#") else group
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            groups.setdefault(group, {})[name] = " ".join(str(statement.value.value).split())
    return groups


def _help(groups: dict[str, dict[str, str]]) -> str:
    parts = []
    for group, settings in groups.items():
        parts.append(f"    {group}\n    {'-' * len(group)}\n")
        for name, text in settings.items():
            parts.append(f"    {name}\n" + textwrap.fill(text, 120, initial_indent=" " * 8, subsequent_indent=" " * 8) + "\n")
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"
