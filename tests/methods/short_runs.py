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
    "steps": 6,
    "n_components": 8,
    "encoder_width": 8,
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
    fields = set(cls.settings_class.model_fields)
    if cls.supports_batches:  # full batches, unless the case sets steps
        full = {"batch_size": 0, "steps": 0}
        own = {"epochs": 0, "steps": settings.get("epochs", settings["steps"])} if "steps" in settings else full
        settings = settings | own
    elif "steps" in fields:  # a test that sets the number of epochs sets that of steps
        width = {"encoder_width": settings["n_components"]} if "n_components" in settings else {}
        settings = {"steps": settings.get("epochs", SMALL["steps"])} | width | settings
    layers = ({key: value for key, value in layer.items() if key in fields} for layer in (SMALL, settings))
    return resolve(cls.settings_class, *layers, labels, graph=graph)


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
