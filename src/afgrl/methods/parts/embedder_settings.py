"""The settings of the default embedding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from afgrl.graph import Graph
from afgrl.methods.base import positive_int
from afgrl.methods.defaults import EXACT_IN_BATCHES, Facts, defaults_for
from afgrl.methods.parts.positive_settings import PositiveSettings, most_neighbors


class NodeEmbedderSettings(PositiveSettings):
    """Fields without a default follow the features, the degrees and the size of the graph (methods/defaults.py)."""

    in_batches: ClassVar[bool] = True
    exact_on_cpu: ClassVar[int] = EXACT_IN_BATCHES

    steps: int = Field(
        ge=0, description="steps of training; by default 300 to 700, depending on the graph, fewer for small graphs"
    )
    batch_size: int = Field(1024, ge=1, description="rows per step")
    dropout: float = Field(
        ge=0, lt=1, description="share of the encoder's input that a step drops; by default 0.25 or 0.7"
    )
    n_components: int = Field(
        ge=1,
        description="width of the embedding (D); by default 512, for more than 50,000 nodes 1,024, and for more than "
        "500,000 nodes 128",
    )
    encoder_width: int = Field(
        ge=1,
        description="width of the encoder; by default n_components, twice that on dense features of at most 50,000 "
        "nodes, and half of it on sparse ones with many neighbors per node and more nodes",
    )
    predictor_width: int = Field(ge=1, description="hidden width of the predictor; by default encoder_width")
    skip: Literal["none", "svd", "svd+ppr"] = Field(
        description="vectors without training that the embedding contains beside the trained ones; svd: those of the "
        "method svd, svd+ppr: also those of ppr; by default svd+ppr, svd for sparse features and many neighbors per "
        "node of at most 50,000 nodes"
    )
    input: Literal["features", "own", "svd"] = Field(
        description="input of the encoder; features: see n_hops, own: X, svd: 1,024 principal directions of [X | SX | "
        "S²X | S³X]; by default svd for dense features, features for few neighbors per node, and otherwise own, or svd "
        "for more than 50,000 nodes"
    )
    neighbor_weight: float = Field(
        ge=0,
        description="weight of the mean target vector of a node's neighbors as a further positive, relative to all "
        "others; by default 1 if input is own, otherwise 0",
    )
    n_hops: int = Field(
        ge=0,
        description="features of the input; 0: SX, h: [X | SX | … | SʰX]; by default 1 or 2, depending on the graph",
    )
    n_neighbors: int = Field(
        ge=1,
        description="nearest neighbors in embedding space (k), at most as many as there are; by default 12, for dense "
        "features 4",
    )
    refresh_every: int = Field(
        ge=1, description="steps between refreshes of positives and targets; by default 20 to 200"
    )

    @property
    def n_steps(self) -> int:
        return self.steps

    @property
    def width(self) -> int:
        return self.encoder_width

    @classmethod
    def graph_defaults(cls, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
        widths = {name: positive_int(given[name]) for name in ("n_components", "encoder_width") if name in given}
        values = defaults_for(Facts.of(graph), {**given, **widths})
        include_self = TypeAdapter(bool).validate_python(given.get("include_self", True))
        values["n_neighbors"] = min(values["n_neighbors"], most_neighbors(graph.n, include_self))
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.skip == "none" and self.encoder_width != self.n_components:
            raise ValueError("without skip, the embedding is the encoder's output: encoder_width equals n_components")
        return self
