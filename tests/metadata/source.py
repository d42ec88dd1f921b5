"""Read the package's source for the names it uses."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "custom_components" / "fair_share"


def tree(path: str) -> ast.Module:
    """Return the syntax tree of a file of the package."""
    return ast.parse((PACKAGE / path).read_text(encoding="utf-8"))


def calls(module: ast.Module, name: str) -> Iterator[ast.Call]:
    """Yield all calls of a function or method with this name."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)):
                yield from [node] * (called == name)


def text_argument(call: ast.Call, name: str) -> str | None:
    """Return the text given first or by this name, ``None`` if it is no plain text."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == name]
    match [*named, *call.args]:
        case [ast.Constant(value=str(text)), *_]:
            return text
    return None


def assigned_errors(module: ast.Module) -> set[str]:
    """Return the texts that are put into a form's errors."""
    found: set[str] = set()
    for node in ast.walk(module):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="errors"))],
                value=ast.Constant(value=str(key)),
            ):
                found.add(key)
    return found


def imports(path: Path) -> Iterator[str]:
    """Yield the full names of all modules that a file imports."""
    package = ("fair_share", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, level=0):
                yield str(module)
            case ast.ImportFrom(module=None, names=names, level=level):
                base = package[: len(package) - level + 1]
                yield from (".".join((*base, alias.name)) for alias in names)
            case ast.ImportFrom(module=str(module), level=level):
                yield ".".join((*package[: len(package) - level + 1], module))
