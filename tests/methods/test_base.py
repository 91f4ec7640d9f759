import pytest
import torch

from afgrl.errors import UserError
from afgrl.methods import available_methods, method_class
from afgrl.methods.base import Method, Size, TrainingFree, positive_int
from afgrl.methods.supervised_gcn import SupervisedGCNMethod
from tests.methods.short_runs import start_run


class Failing(TrainingFree):
    name = "failing"

    def prepare(self, graph):
        return graph

    def encode(self, inputs):
        raise RuntimeError("no vectors")


@pytest.mark.parametrize("training", [True, False])
def test_embed_restores_the_mode_after_an_error(training, rng):
    method = Failing(TrainingFree.settings_class(), Size(3, 2), rng).train(training)
    with pytest.raises(RuntimeError, match="no vectors"):
        method.embed(None)
    assert method.training is training


def test_embed_is_not_overridden():
    """Eval mode and gradients are handled once, in the base class."""
    for name, method in available_methods().items():
        assert method.embed is Method.embed, name


def test_only_the_supervised_method_needs_labels():
    assert [name for name, method in available_methods().items() if method.needs_labels] == [SupervisedGCNMethod.name]


def test_the_loss_of_a_method_without_training_is_an_internal_error(small_graph):
    state, inputs = start_run("raw", small_graph)
    with pytest.raises(AssertionError, match="raw does not train"):
        state.method.loss(inputs, state.rng)


def test_methods_are_registered_by_name():
    for name, method in available_methods().items():
        assert method_class(name) is method
        assert method.name == name
    assert "failing" not in available_methods()  # defined outside the package
    with pytest.raises(UserError, match="Unknown method 'afgrel'; did you mean 'afgrl'"):
        method_class("afgrel")


def test_the_device_is_known_without_parameters(small_graph):
    state, _ = start_run("raw", small_graph)
    assert state.method.device == torch.device("cpu")
    assert not list(state.method.parameters())


def test_positive_int_parses_like_a_field():
    assert [positive_int(value) for value in ("64", "64.0", 64.0, 64)] == [64] * 4
    for invalid in (0, "x", None, float("inf"), 2.5):
        with pytest.raises(ValueError, match="validation error"):
            positive_int(invalid)
