"""The methods with scikit-learn's manners."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from afgrl.config import resolve
from afgrl.data.files.encode import fitted_from_json
from afgrl.errors import UserError
from afgrl.experiment import describe, load_method
from afgrl.graph import Graph
from afgrl.methods import method_class
from afgrl.ops import knn
from afgrl.runs import Run
from afgrl.train import Callback, History, pick_device, start, train

if TYPE_CHECKING:
    import pandas as pd
    from torch_geometric.data import Data


class NodeEmbedder(TransformerMixin, BaseEstimator):
    """A method as an estimator: its parameters are the method's settings, by the same names and defaults.

    A subclass names its method, or has that of its parent; the signature of its ``__init__`` is made from the method's
    ``Config``, so that a setting is declared in one place only.
    """

    method: ClassVar[str]

    def __init_subclass__(cls, *, method: str | None = None) -> None:
        super().__init_subclass__()
        if method is None:
            if not hasattr(cls, "method"):
                raise TypeError(f"The class {cls.__name__} needs a method: class {cls.__name__}(…, method=NAME).")
            return
        cls.method = method
        fields = method_class(method).Config.model_fields
        defaults = {name: field.default for name, field in fields.items()} | {
            "device": "auto",
            "verbose": False,
        }

        def __init__(self: NodeEmbedder, **parameters: Any) -> None:
            unexpected = parameters.keys() - defaults.keys()
            if unexpected:  # the same sentence as Python's own
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {min(unexpected)!r}")
            for name, default in defaults.items():
                setattr(self, name, parameters.get(name, default))

        kinds = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in defaults.items()
        ]
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        __init__.__signature__ = inspect.Signature([own, *kinds])  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[method-assign, assignment]

    def fit(self, graph: Any, y: Any = None) -> Self:
        """Learn from a graph: a Graph, a PyG ``Data``, a pair (adjacency, features) or a NetworkX graph.

        ``y`` is there for scikit-learn's pipelines and is never read.
        """
        graph = Graph.of(graph)
        config = resolve(method_class(self.method).Config, self._settings()).adapted(graph)
        state, inputs = start(self.method, config, graph, pick_device(self.device))
        self.history_: list[dict[str, Any]] = []
        callbacks: list[Callback] = [History(self.history_.append)]
        if self.verbose:
            from afgrl.progress import progress_bar

            with progress_bar(config, 0) as show:
                train(state, inputs, [*callbacks, show])
        else:
            train(state, inputs, callbacks)
        self.method_ = state.method.eval()
        self.embedding_ = _apart_from(graph, state.method.represent(inputs))
        self.node_ids_ = graph.ids
        self.n_features_in_ = graph.n_features
        self.weighted_ = graph.edge_weight is not None
        self.encoder_ = graph.encoder
        return self

    def fit_transform(self, graph: Any, y: Any = None) -> np.ndarray:
        """Learn from a graph and return its vectors, [n, d] float32, in its own node order."""
        return self.fit(graph).embedding_

    def transform(self, graph: Any) -> np.ndarray:
        """The vectors of a graph, also of one never seen, without training: [n, d] float32."""
        check_is_fitted(self, "method_")
        graph = Graph.of(graph, like=self.encoder_)
        if None not in (graph.encoder, self.encoder_) and graph.encoder != self.encoder_:
            raise UserError(
                "The features of this graph were made of tables by other means and categories than those of the "
                "training; pass the tables themselves, or Graph.from_pandas(…, like=THE_OTHER_GRAPH)."
            )
        if graph.n_features != self.n_features_in_:
            raise UserError(f"This was fitted on {self.n_features_in_} features, but the graph has {graph.n_features}.")
        return _apart_from(graph, self.method_.embed(graph.to(self.method_.device)))

    def kneighbors(
        self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Cosine distances and positions of the nearest nodes, as scikit-learn's ``NearestNeighbors`` gives them.

        ``X`` are vectors, [q, d]; without it, every fitted node is asked about, itself left out.
        """
        check_is_fitted(self, "embedding_")
        keys = torch.from_numpy(self.embedding_)
        if X is None:
            found = knn(keys, keys, n_neighbors, diagonal="drop")
        else:
            asked = np.asarray(X, dtype=np.float32)
            if asked.ndim != 2 or asked.shape[1] != keys.shape[1]:
                raise UserError(f"X are vectors, [q, {keys.shape[1]}], but its shape is {asked.shape}.")
            found = knn(torch.from_numpy(asked), keys, n_neighbors)
        index = found.index.numpy()
        return (1 - found.similarity.numpy(), index) if return_distance else index

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``afgrl0``, ``afgrl1`` …, as scikit-learn names what a transformer makes."""
        check_is_fitted(self, "embedding_")
        return np.array([f"{self.method}{i}" for i in range(self.embedding_.shape[1])], dtype=object)

    def to_pandas(self) -> pd.DataFrame:
        """The vectors of the fitted nodes as a DataFrame, under their own ids."""
        import pandas as pd

        check_is_fitted(self, "embedding_")
        index = pd.Index(self.node_ids_, name="id")
        return pd.DataFrame(self.embedding_, index=index, columns=self.get_feature_names_out())

    def to_pyg(self, data: Data) -> Data:
        """A copy of a PyG ``Data`` with its nodes' vectors as ``x``."""
        copy = data.clone()
        copy.x = torch.from_numpy(self.transform(data)).to(getattr(data.edge_index, "device", "cpu"))
        return copy

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write a run folder that ``load`` and the command line read."""
        check_is_fitted(self, "method_")
        config = self.method_.config
        if not force and Path(path).is_dir() and any(Path(path).iterdir()):
            raise UserError(f"The folder {str(path)!r} is not empty; force=True replaces a run.")
        run = Run.create(Path(path), force=force)
        with run.replacing():
            run.write_config({"source": "", "method": self.method}, config.model_dump())
            run.write_environment(self.method_.device)
            for record in self.history_:
                run.append("history.jsonl", record)
            run.save_embedding(self.node_ids_, self.embedding_)
            if self.encoder_ is not None:
                run.save_preprocessing(self.encoder_.as_json())
            described = describe(self.method, config, self.method_.size, weighted=self.weighted_)
            run.save_model(self.method_.state_dict(), described)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> Self:
        """A fitted estimator from a run folder, made by ``save`` or by ``afgrl fit``."""
        run = Run.open(Path(path))
        method = load_method(run, pick_device(device))
        if method.name != cls.method:
            raise UserError(f"The run {str(path)!r} was trained by {method.name!r}, not by {cls.method!r}.")
        estimator = cls(**method.config.model_dump(), device=device)
        estimator.method_ = method
        estimator.node_ids_, estimator.embedding_ = run.embedding()
        estimator.history_ = run.lines("history.jsonl")
        estimator.n_features_in_ = method.size.n_features
        estimator.weighted_ = run.learned_from_weights
        stored = run.preprocessing()
        estimator.encoder_ = fitted_from_json(stored) if stored else None
        return estimator

    def _settings(self) -> dict[str, Any]:
        own = {"device", "verbose"}
        return {name: value for name, value in self.get_params().items() if name not in own}


def _apart_from(graph: Graph, vectors: Tensor) -> np.ndarray:
    """Vectors that may be changed without changing the graph: a method may give the features themselves."""
    found = vectors.cpu().numpy()
    may_share = graph.x.layout == torch.strided and graph.x.is_cpu
    return found.copy() if may_share and np.may_share_memory(found, graph.x.numpy()) else found


class AFGRL(NodeEmbedder, method="afgrl"):
    """Node vectors without labels, augmentation or negatives.

    >>> from afgrl import AFGRL, load
    >>> vectors = AFGRL(epochs=100).fit_transform(load("demo").graph)
    >>> vectors.shape
    (1797, 512)

    Parameters are the settings of ``docs/method.md``; besides, ``device`` (``auto``, ``cpu``, ``cuda``) and
    ``verbose``. After ``fit``: ``embedding_`` [n, d], ``node_ids_`` [n], ``history_``, ``n_features_in_``,
    ``weighted_`` (whether edges had weights), ``encoder_`` (how
    columns of tables became features, or None).
    """


class BGRL(NodeEmbedder, method="bgrl"):
    """Node vectors by predicting a node's own vector in another view of the graph."""


class DGI(NodeEmbedder, method="dgi"):
    """Node vectors by telling the graph's nodes from shuffled ones."""


class DeepWalk(NodeEmbedder, method="deepwalk"):
    """A vector for each node of one graph, from random walks; features are not read."""


class DeepWalkFeatures(NodeEmbedder, method="deepwalk_feats"):
    """DeepWalk's vectors beside the features."""


class GCA(NodeEmbedder, method="gca"):
    """GRACE with views that keep edges and features of central nodes."""


class GMI(NodeEmbedder, method="gmi"):
    """Node vectors that tell a node's features, those around it and its edges from others."""


class GRACE(NodeEmbedder, method="grace"):
    """Node vectors by telling a node from all others across two views of the graph."""


class Hops(NodeEmbedder, method="hops"):
    """[X | SX | … | SʰX], without training."""


class MVGRL(NodeEmbedder, method="mvgrl"):
    """Node vectors from the graph's edges and their diffusion, judged by each other."""


class Node2Vec(NodeEmbedder, method="node2vec"):
    """DeepWalk by walks that prefer to return (p) or to leave (q)."""


class RandomEncoder(NodeEmbedder, method="random"):
    """An untrained encoder."""


class RawFeatures(NodeEmbedder, method="raw"):
    """The features as they are."""
