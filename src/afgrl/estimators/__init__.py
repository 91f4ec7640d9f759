"""The methods as scikit-learn estimators."""

from afgrl.estimators.base import MethodEstimator
from afgrl.estimators.generated import (
    AFGRL,
    BGRL,
    CCASSG,
    DGI,
    GCA,
    GMI,
    GRACE,
    MVGRL,
    NS4GC,
    PPR,
    SGRL,
    SIGNA,
    SVD,
    DeepWalk,
    DeepWalkFeatures,
    GraphMAE2,
    Hops,
    Node2Vec,
    NodeEmbedder,
    RandomEncoder,
    RawFeatures,
)

__all__ = [
    "AFGRL", "BGRL", "CCASSG", "DGI", "GCA", "GMI", "GRACE", "MVGRL", "NS4GC", "PPR", "SGRL", "SIGNA", "SVD",
    "DeepWalk", "DeepWalkFeatures", "GraphMAE2", "Hops", "MethodEstimator", "Node2Vec", "NodeEmbedder",
    "RandomEncoder", "RawFeatures",
]  # fmt: skip
