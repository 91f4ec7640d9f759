"""A catalog of hand-made hostile and odd inputs: formats × defects, each with the command line that reads it."""

import functools

from tests.fuzz.handmade import arrays, commands, graphs, tables
from tests.fuzz.handmade.case import Handmade

SAMPLE = 48  # `make test` tries one in this many
__all__ = ["SAMPLE", "Handmade", "catalog"]


@functools.cache
def catalog() -> dict[str, Handmade]:
    """By name. A name that is given twice is an error, so that every case counts once."""
    found: dict[str, Handmade] = {}
    for module in (tables, graphs, arrays, commands):
        for case in module.cases():
            assert case.name not in found, case.name
            found[case.name] = case
    return found
