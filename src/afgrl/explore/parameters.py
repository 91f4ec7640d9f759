"""The parameters of requests to the explorer, each with its bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from afgrl.explore.access import MAX_TOKEN

Format = Literal["csv", "parquet"]
MAX_ID = 10_000  # characters
MAX_QUOTED = 100  # characters of a wrong name that an error repeats
MAX_FILTERS = 100
MAX_CODES = 2000  # values of a column that a filter accepts
MAX_CORNERS = 2000  # of a lasso


class Parameters(BaseModel):
    """Parameters of a request; unknown ones are rejected."""

    model_config = ConfigDict(extra="forbid")


class PageParameters(Parameters):
    token: str = Field("", max_length=MAX_TOKEN)  # checked before, for every request


class SearchParameters(Parameters):
    text: str = Field(min_length=1, max_length=1000)
    limit: int = Field(12, ge=1, le=100)


class NeighborParameters(Parameters):
    id: str = Field(max_length=MAX_ID)
    k: int = Field(10, ge=1, le=100)


class ColumnFilter(Parameters):
    """A range of a column of numbers, or values of a column of categories by their positions in the page's list."""

    column: str = Field(max_length=MAX_ID)
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None
    codes: list[Annotated[int, Field(ge=0, lt=2**16)]] | None = Field(None, max_length=MAX_CODES)


class Where(Parameters):
    """Which nodes a question is about: those that pass every filter and are inside the polygon."""

    filters: list[ColumnFilter] = Field([], max_length=MAX_FILTERS)
    inside: list[tuple[FiniteFloat, FiniteFloat]] | None = Field(None, min_length=3, max_length=MAX_CORNERS)


class ExportParameters(Parameters):
    """Of ``rows`` and ``where``, one is given."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: list[Annotated[int, Field(ge=0, lt=2**31)]] | None = Field(None, min_length=1)
    where: Annotated[Where | None, Field(strict=False)] = None
    format: Format = "csv"
    columns: list[str] | None = None
    vectors: bool = False
