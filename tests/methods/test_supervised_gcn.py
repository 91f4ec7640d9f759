import torch

from afgrl.methods.supervised_gcn import SupervisedGCNSettings
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from tests.conftest import communities
from tests.methods.short_runs import CPU


def predicted(graph, y, train, validation, **settings):
    """The classes that a trained network predicts, [s, n]."""
    settings = SupervisedGCNSettings(n_classes=3, n_splits=len(train), n_components=8, **settings)
    state, inputs = initial_state("supervised_gcn", settings, graph, CPU)
    state.method.attach_labels(y, train, validation)
    training_loop(state, inputs)
    return state.method.predict(inputs)


def groups():
    """Three groups of 20 nodes, their labels, and a partition of the nodes into three parts."""
    return communities(n_isolated=0), torch.arange(60) // 20, torch.arange(60) % 3


def test_a_network_learns_from_the_nodes_of_its_split_only():
    graph, y, part = groups()
    roles = torch.stack([part == 0, part == 1]), torch.stack([part == 1, part == 2])
    expected = predicted(graph, y, *roles, epochs=30)
    for split, unseen in enumerate((part == 2, part == 0)):
        other = torch.where(unseen, (y + 1) % 3, y)  # labels that this split must not see
        assert torch.equal(predicted(graph, other, *roles, epochs=30)[split], expected[split])
    accuracy = (expected == y).float().mean(1)
    assert (accuracy > 0.8).all()  # the groups differ in features and edges


def test_the_networks_of_several_splits_are_independent():
    graph, y, part = groups()
    first, second = (part == 0)[None], (part == 1)[None]
    # Without dropout no random numbers follow the initial weights, which are drawn split by split.
    alone = predicted(graph, y, first, second, epochs=20, dropout=0.0)
    both = predicted(graph, y, torch.cat([first, second]), torch.cat([second, first]), epochs=20, dropout=0.0)
    assert torch.equal(alone[0], both[0])


def test_unlabeled_nodes_are_ignored():
    graph, y, part = groups()
    roles = (part == 0)[None], (part == 1)[None]
    unlabeled = torch.arange(60) % 9 == 0  # training nodes
    expected = predicted(graph, y, roles[0] & ~unlabeled, roles[1], epochs=10)
    assert torch.equal(predicted(graph, torch.where(unlabeled, -1, y), *roles, epochs=10), expected)


def test_the_result_is_the_epoch_with_the_best_validation_accuracy():
    graph, y, part = groups()
    settings = SupervisedGCNSettings(n_classes=3, n_splits=1, n_components=8, epochs=15, learning_rate=0.5)
    state, inputs = initial_state("supervised_gcn", settings, graph, CPU)
    state.method.attach_labels(y, (part == 0)[None], (part == 1)[None])
    accuracies = []

    def measure(state, loss):
        correct = state.method.predict(inputs)[0] == y
        accuracies.append(float(correct[part == 1].float().mean()))

    training_loop(state, inputs, [measure])
    assert accuracies == sorted(accuracies)
    assert accuracies[-1] == float(state.method.best_accuracy[0])
