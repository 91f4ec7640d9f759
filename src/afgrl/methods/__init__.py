"""One file a method; adding one is adding one file. Every module here that holds a ``Method`` is found."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from afgrl.errors import unknown
from afgrl.methods.base import Method, Size


@cache
def methods() -> dict[str, type[Method]]:
    """Every method by its name."""
    found = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        for value in vars(module).values():
            own = isinstance(value, type) and issubclass(value, Method) and value.__module__ == module.__name__
            if own and hasattr(value, "name"):  # which the base class has not
                found[value.name] = value
    return found


def method_class(name: str) -> type[Method]:
    if name not in methods():
        raise unknown("method", name, methods())
    return methods()[name]


__all__ = ["Method", "Size", "method_class", "methods"]
