"""Methods, one file each. Every module here that defines a ``Method`` with a name is registered."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from afgrl.errors import unknown
from afgrl.methods.base import Method, Size


@cache
def available_methods() -> dict[str, type[Method]]:
    """All methods by name."""
    registered = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        for value in vars(module).values():
            is_method = isinstance(value, type) and issubclass(value, Method) and value.__module__ == module.__name__
            if is_method and hasattr(value, "name"):  # the base classes have no name
                registered[value.name] = value
    return registered


def method_class(name: str) -> type[Method]:
    """The class of a method; raises ``UserError`` for an unknown name."""
    if name not in available_methods():
        raise unknown("method", name, available_methods())
    return available_methods()[name]


__all__ = ["Method", "Size", "available_methods", "method_class"]
