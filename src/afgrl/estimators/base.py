"""What all estimators share: the scikit-learn API over a method."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, TransformerTags, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from afgrl.analysis.clustering import cluster_vectors
from afgrl.analysis.projection import project_vectors
from afgrl.config import Settings, resolve
from afgrl.cost.limits import check_memory
from afgrl.data.any_source import as_dataset
from afgrl.data.convert import as_graph
from afgrl.data.dataset import Dataset
from afgrl.errors import UserError
from afgrl.estimators.picture import plot_embedding
from afgrl.experiment.evaluation import evaluate_run
from afgrl.experiment.model import describe_model, load_method
from afgrl.graph import Graph
from afgrl.methods import Method, method_class
from afgrl.notebook import NodePlot, check_plotly
from afgrl.ops.knn import nearest_neighbors
from afgrl.ops.threads import warn_if_slow
from afgrl.runs.folder import HISTORY, Run
from afgrl.runs.spec import RunSpec
from afgrl.train.callbacks import History, Stopwatch
from afgrl.train.device import choose_device
from afgrl.train.loop import Callback, training_loop
from afgrl.train.progress import progress_bar
from afgrl.train.state import initial_state

if TYPE_CHECKING:
    import pandas as pd
    from torch_geometric.data import Data

OWN_PARAMETERS = ("device", "verbose")  # of the estimator, not of the method


class MethodEstimator(TransformerMixin, BaseEstimator):
    """A method as a scikit-learn estimator. Its parameters are the settings of the method, with ``random_state`` for
    ``seed``; a parameter that is None follows the graph."""

    method: ClassVar[str]
    device: str
    verbose: bool

    def fit(self, graph: Any, y: Any = None) -> Self:
        """Learn from a graph: a Graph, a Dataset, a PyG ``Data``, a pair (adjacency, features), a pair (nodes, edges)
        of DataFrames, or a NetworkX graph. ``y`` exists for scikit-learn pipelines and is never read."""
        warn_if_slow()
        dataset = as_dataset(graph)
        settings = resolve(method_class(self.method).settings_class, self._settings(), graph=dataset.graph)
        device = choose_device(self.device)
        check_memory(method_class(self.method), settings, dataset.graph, device)
        stopwatch = Stopwatch()
        state, inputs = initial_state(self.method, settings, dataset.graph, device)
        history: list[dict[str, Any]] = []
        callbacks: list[Callback] = [History(history.append), stopwatch]
        if self.verbose:
            with progress_bar(settings, 0) as show:
                training_loop(state, inputs, [*callbacks, show])
        else:
            training_loop(state, inputs, callbacks)
        embedding = _independent_of(dataset.graph, state.method.embed(inputs))
        return self._fitted(state.method.eval(), dataset, dataset.graph.ids, embedding, history, state.seconds)

    def _fitted(
        self, method: Method, dataset: Dataset, ids: np.ndarray, embedding: np.ndarray, history: list[dict[str, Any]],
        seconds: float,
    ) -> Self:  # fmt: skip
        self.method_, self.embedding_, self.node_ids_, self.history_ = method, embedding, ids, history
        self.n_features_in_ = method.size.n_features
        self.table_encoder_ = dataset.graph.table_encoder
        self.weighted_ = dataset.graph.edge_weight is not None
        self._dataset, self._seconds = dataset, seconds
        self._projections: dict[str, np.ndarray] = {}
        if hasattr(self, "labels_"):
            del self.labels_  # of an earlier fit
        return self

    def __sklearn_tags__(self) -> Tags:
        """What scikit-learn's tools should know: the input is a graph, not a table, and vectors are float32."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags

    @property
    def encoder_(self) -> nn.Module:
        """The trained neural network."""
        check_is_fitted(self, "method_")
        encoder = getattr(self.method_, "encoder", None)
        if not isinstance(encoder, nn.Module):
            raise AttributeError(f"The method {self.method!r} has no encoder.")
        return encoder

    def fit_transform(self, graph: Any, y: Any = None) -> np.ndarray:
        """Learn from a graph and return its vectors, [n, d] float32, in node order."""
        return self.fit(graph).embedding_

    def fit_predict(self, graph: Any, y: Any = None, *, n_clusters: int | None = None) -> np.ndarray:
        """Learn from a graph and return the cluster of each node, as ``cluster`` does; ``y`` is never read."""
        return self.fit(graph).cluster(n_clusters)

    def cluster(self, n_clusters: int | None = None) -> np.ndarray:
        """The cluster of each fitted node, [n] int32, also kept as ``labels_``; cluster 0 is the largest.

        As in ``afgrl cluster``, k-means clusters the readout of the vectors, and without ``n_clusters`` the number is
        chosen by modularity. If nodes have equal vectors, there may be fewer clusters than ``n_clusters``.
        """
        check_is_fitted(self, "embedding_")
        graph, seed = self._dataset.graph.to("cpu"), self.method_.settings.seed
        self.labels_ = cluster_vectors(self.embedding_, n_clusters, seed, graph=graph).labels
        return self.labels_

    def plot(self, *, color: Any = None, projection: str = "tsne") -> NodePlot:
        """A map of the embedding for notebooks: names on hover, zoom, lasso and box selection. ``selected_ids`` of the
        answer are the selected nodes, and its ``on_select`` calls a function with them.

        ``color`` is "cluster", "label", a column of the tables, or a value for each node; by default the clusters if
        ``cluster`` was called, else the labels if there are any. ``projection`` is "tsne" or "pca"; each is computed
        once. Needs ``pip install 'afgrl[notebook]'``.
        """
        check_is_fitted(self, "embedding_")
        check_plotly()
        if isinstance(color, str) and color == "cluster" and not hasattr(self, "labels_"):
            self.cluster()
        if projection not in self._projections:
            self._projections[projection] = project_vectors(self.embedding_, projection)
        clusters = getattr(self, "labels_", None)
        return plot_embedding(self._projections[projection], self._dataset, self.node_ids_, clusters, color)

    def evaluate(self, *, baselines: bool = True) -> dict[str, Any]:
        """The scores of `afgrl evaluate`, beside those of untrained baselines; needs a fit on a ``Dataset`` with
        labels."""
        warn_if_slow()
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder) / "run")
            return evaluate_run(Run.open(Path(folder) / "run"), self.method_.device, baselines=baselines)

    def transform(self, graph: Any) -> np.ndarray:
        """The vectors of a graph, also of one never seen, without training: [n, d] float32."""
        check_is_fitted(self, "method_")
        table_encoder: Any = self.table_encoder_
        graph = as_graph(graph, like=table_encoder)
        if None not in (graph.table_encoder, table_encoder) and graph.table_encoder != table_encoder:
            raise UserError(
                "The features of this graph were made from tables with other means and categories than in training; "
                "pass the tables themselves, or from_pandas(…, like=TRAINING_GRAPH)."
            )
        if graph.n_features != self.n_features_in_:
            raise UserError(f"Fitted on {self.n_features_in_} features, but the graph has {graph.n_features}.")
        return _independent_of(graph, self.method_.embed_graph(graph.to(self.method_.device)))

    def kneighbors(
        self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Cosine distances and positions of the nearest nodes, in the format of scikit-learn's ``NearestNeighbors``.

        ``X`` holds query vectors, [q, d]; without it every fitted node is queried, and excluded from its own result.
        """
        check_is_fitted(self, "embedding_")
        keys = torch.from_numpy(self.embedding_)
        if X is None:
            found = nearest_neighbors(keys, keys, n_neighbors, diagonal="drop")
        else:
            queries = np.asarray(X, dtype=np.float32)
            if queries.ndim != 2 or queries.shape[1] != keys.shape[1]:
                raise UserError(f"X must have shape [q, {keys.shape[1]}], not {queries.shape}.")
            found = nearest_neighbors(torch.from_numpy(queries), keys, n_neighbors)
        index = found.index.numpy()
        return (1 - found.similarity.numpy(), index) if return_distance else index

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``afgrl0``, ``afgrl1`` …, as scikit-learn names the output of a transformer."""
        check_is_fitted(self, "embedding_")
        return np.array([f"{self.method}{i}" for i in range(self.embedding_.shape[1])], dtype=object)

    def to_pandas(self) -> pd.DataFrame:
        """The vectors of the fitted nodes as a DataFrame indexed by their ids."""
        check_is_fitted(self, "embedding_")
        try:
            import pandas as pd
        except ImportError:
            raise UserError("A DataFrame needs pandas: pip install 'afgrl[pandas]'.") from None
        index = pd.Index(self.node_ids_, name="id")
        return pd.DataFrame(self.embedding_, index=index, columns=self.get_feature_names_out())

    def to_pyg(self, data: Data) -> Data:
        """A copy of a PyG ``Data`` with the vectors as ``x``."""
        copy = data.clone()
        copy.x = torch.from_numpy(self.transform(data)).to(getattr(data.edge_index, "device", "cpu"))
        return copy

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write a run folder, which ``load`` and all commands of the command line read."""
        check_is_fitted(self, "method_")
        with Run(Path(path)).writing():
            existing = Run(Path(path))
            existing.clean()
            unfinished = existing.is_unfinished_save()  # nobody can resume it, so it may be replaced
            if not (force or unfinished) and Path(path).is_dir() and any(Path(path).iterdir()):
                raise UserError(f"The folder {str(path)!r} is not empty; force=True replaces a run.")
            run = Run.create(Path(path), force=force or unfinished)
            with run.replacing(resumable=False):
                run.save_spec(RunSpec("", self.method, settings=self.method_.settings.model_dump()))
                run.save_environment(self.method_.device)
                run.save_dataset(self._dataset)
                for record in self.history_:
                    run.append(HISTORY, record)
                run.save_embedding(self.node_ids_, self.embedding_)
                epochs = self.history_[-1]["epoch"] if self.history_ else 0
                description = describe_model(
                    self.method_, weighted=self.weighted_, epochs=epochs, seconds=self._seconds
                )
                run.save_model(self.method_.state_dict(), description)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> Self:
        """A fitted estimator from a run folder, made by ``save`` or by ``afgrl fit``."""
        run = Run.open(Path(path))
        method = load_method(run, choose_device(device))
        if method.name != cls.method:
            raise UserError(f"The run {str(path)!r} was trained with {method.name!r}, not with {cls.method!r}.")
        estimator = cls(**parameters_of(method.settings), device=device)
        ids, embedding = run.embedding()
        seconds = run.model_description()["seconds"]
        return estimator._fitted(method, run.dataset(), ids, embedding, run.lines(HISTORY), seconds)

    def _settings(self) -> dict[str, Any]:
        """The parameters as settings, without those that follow the graph."""
        given = {name: value for name, value in self.get_params().items() if name not in OWN_PARAMETERS}
        seed = given.pop("random_state")
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(2**31 - 1)
        return {name: value for name, value in given.items() if value is not None} | {"seed": int(seed)}


def parameters_of(settings: Settings) -> dict[str, Any]:
    """Settings as parameters of an estimator."""
    given = settings.model_dump()
    return {"random_state" if name == "seed" else name: value for name, value in given.items()}


def _independent_of(graph: Graph, vectors: Tensor) -> np.ndarray:
    """Vectors that do not share memory with the graph: a method may return the features themselves."""
    array = vectors.cpu().numpy()
    may_share = graph.x.layout == torch.strided and graph.x.is_cpu
    return array.copy() if may_share and np.may_share_memory(array, graph.x.numpy()) else array
