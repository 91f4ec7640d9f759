"""Methods, one file each. Every module here that defines a ``Method`` with a name is registered."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from afgrl.config import Settings
from afgrl.errors import UserError, unknown
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


def check_processes(name: str, settings: Settings) -> None:
    """Raises ``UserError`` if several processes cannot train a method with these settings."""
    cls = method_class(name)
    if not cls.supports_processes:
        able = " or ".join(name for name, one in available_methods().items() if one.supports_processes)
        raise UserError(f"The method {name!r} runs in one process; several processes train {able}.")
    cls.check_processes(settings)


__all__ = ["Method", "Size", "available_methods", "check_processes", "method_class"]
