"""Short training runs of any method, also of methods that do not exist yet."""

import torch

from afgrl.config import resolve
from afgrl.methods import method_class
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state

CPU = torch.device("cpu")
N_CLASSES, N_SPLITS = 3, 2
# Small values for the settings that a method has; the other settings keep their defaults.
SMALL = {
    "epochs": 6,
    "n_components": 8,
    "predictor_width": 8,
    "n_clusters": 4,
    "n_restarts": 2,
    "kmeans_iters": 3,
    "refresh_every": 2,
    "hidden_width": 8,
    "projection_width": 8,
    "walk_length": 6,
    "window": 2,
    "batch_size": 32,
    "patience": 0,
    "keep": 5,
}


def small_settings(name, graph, **settings):
    """The settings of a short run: SMALL and ``settings``, without those that the method does not have."""
    cls = method_class(name)
    labels = cls.label_settings(N_CLASSES, N_SPLITS) if cls.needs_labels else {}
    fields = set(cls.settings_class.model_fields) - (set() if cls.trains else {"epochs"})
    if cls.supports_batches:
        settings = in_batches(settings) if "steps" in settings else settings | {"batch_size": 0}
    layers = ({key: value for key, value in layer.items() if key in fields} for layer in (SMALL, settings))
    return resolve(cls.settings_class, *layers, labels, graph=graph)


def in_batches(settings):
    """The settings of a run in batches; a test that sets the number of epochs sets that of steps."""
    wide = {"encoder_width": settings.get("n_components", SMALL["n_components"])}
    return wide | settings | {"steps": settings.get("epochs", settings["steps"]), "epochs": 0}


def start_run(name, graph, device=CPU, labels=None, **settings):
    """The state before the first epoch, and the inputs; ``labels`` are for a method that needs labels."""
    state, inputs = initial_state(name, small_settings(name, graph, **settings), graph, device)
    if state.method.needs_labels:
        state.method.attach_labels(*(labels or small_labels(graph.n)))
    return state, inputs


def small_labels(n):
    """Labels [n], and the training and validation nodes of each split, [s, n] bool."""
    part = torch.arange(n) % 3
    train, validation = torch.stack([part == 0, part <= 1]), torch.stack([part == 1, part == 2])
    return N_CLASSES * torch.arange(n) // n, train, validation


def train_run(name, graph, **options):
    """The state after the last epoch, and the vectors."""
    state, inputs = start_run(name, graph, **options)
    training_loop(state, inputs)
    return state, state.method.embed(inputs)
