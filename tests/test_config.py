import pytest
import torch

from afgrl.config import from_assignments, from_file, recipe, resolve
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods import methods
from afgrl.methods.afgrl import AFGRLConfig


def test_later_layers_overrule():
    config = resolve(AFGRLConfig, {"epochs": 7, "n_neighbors": 3}, {"n_neighbors": "8"})
    assert (config.epochs, config.n_neighbors) == (7, 8)
    assert config.momentum == AFGRLConfig().momentum


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        ({"n_neighbors": 3}, "no setting 'n_neighbors'; did you mean 'n_neighbors'"),
        ({"zzz": 3}, "possible are"),
        ({"n_neighbors": "three"}, "'n_neighbors' cannot be 'three'"),
        ({"n_neighbors": 0}, "greater than or equal to 1"),
        ({"momentum": 2}, "'momentum' cannot be 2"),
        ({"schedule": "linear"}, "'schedule' cannot be 'linear'"),
    ],
)
def test_a_wrong_setting_gets_one_sentence(layer, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        resolve(AFGRLConfig, layer)
    assert "\n" not in str(caught.value)


def test_the_papers_recipe_is_the_papers_table():
    """D, predictor width, learning rate, epochs, k of the appendix's table."""
    table = {
        "wikics": (1024, 2048, 0.001, 1500, 8),
        "computers": (512, 1024, 0.001, 4000, 4),
        "photo": (512, 1024, 0.001, 3000, 4),
        "cs": (1024, 2048, 0.001, 1000, 4),
        "physics": (256, 512, 0.01, 1000, 8),
    }
    for dataset, row in table.items():
        config = resolve(AFGRLConfig, recipe("afgrl", "paper", dataset))
        found = (
            config.n_components, config.predictor_width, config.learning_rate, config.epochs, config.n_neighbors
        )  # fmt: skip
        assert found == row, dataset
        assert (config.n_clusters, config.n_restarts, config.momentum, config.n_layers) == (100, 5, 0.9, 1)


@pytest.mark.parametrize("method", list(methods()))
def test_every_recipe_of_every_method_is_valid(method):
    for name in ("default", "paper"):
        for dataset in ("", "wikics", "computers", "photo", "cs", "physics"):
            resolve(methods()[method].Config, recipe(method, name, dataset))


def test_an_unknown_recipe_is_named():
    with pytest.raises(UserError, match="no recipe 'papr'; did you mean 'paper'"):
        recipe("afgrl", "papr")


def test_settings_from_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("n_neighbors = 8\n")
    assert from_file(file) == {"n_neighbors": 8}
    file.write_text("[run]\nsource = 'photo'\n[settings]\nepochs = 3\n")
    assert from_file(file) == {"epochs": 3}
    file.write_text("epochs = \n")
    with pytest.raises(UserError, match="cannot be read"):
        from_file(file)
    with pytest.raises(UserError, match="no settings file"):
        from_file(tmp_path / "none.toml")


def test_assignments():
    assert from_assignments(["a=1", " b = x=y "]) == {"a": "1", "b": "x=y"}
    with pytest.raises(UserError, match="name=value"):
        from_assignments(["a"])


def test_width_and_epochs_follow_the_size_of_a_graph_unless_told():
    def adapted(n, x, **settings):
        edges = torch.stack([torch.arange(n), torch.arange(n).roll(1)])
        config = AFGRLConfig(**settings).adapted(Graph(x, edges))
        return config.n_components, config.predictor_width, config.epochs

    for n, dense, sparse in ((10, (512, 1024, 2000), (512, 1024, 100)), (50_001, (128, 256, 2000), (512, 1024, 50))):
        words = torch.zeros(n, 10)
        words[:, 0] = 1
        assert adapted(n, torch.ones(n, 1)) == dense
        assert adapted(n, words) == sparse
    assert adapted(50_001, torch.ones(50_001, 1), n_components=64, epochs=7) == (64, 128, 7)


def test_neighbors_of_large_graphs_are_looked_for_in_clusters_on_a_cpu():
    assert AFGRLConfig().looks_into_clusters(50_001, torch.device("cpu"))
    assert not AFGRLConfig().looks_into_clusters(50_001, torch.device("cuda"))
    assert not AFGRLConfig(search="exact").looks_into_clusters(50_001, torch.device("cpu"))
    assert not AFGRLConfig(positives="knn").looks_into_clusters(50_001, torch.device("cpu"))  # it makes none
