from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl import DEFAULT_METHOD
from afgrl.config import recipe, resolve, settings_from_assignments, settings_from_file
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods import available_methods
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.methods.deepwalk import DeepWalkSettings
from afgrl.methods.defaults import RULES, Facts
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.positive_settings import LARGE
from afgrl.methods.parts.spectral import HUGE

GRAPH = Graph(torch.ones(10, 2), torch.tensor([[0, 1], [1, 2]]))
# Rings of nodes, below and above the size of a large graph.
RING = {n: torch.stack([torch.arange(n), torch.arange(n).roll(1)]) for n in (10, 10_000, LARGE, LARGE + 1)}


def bag_of_words(n):
    """[n, 10] with one word per node: 10 % non-zeros."""
    words = torch.zeros(n, 10)
    words[:, 0] = 1
    return words


def test_later_layers_override_earlier_ones():
    settings = resolve(AFGRLSettings, {"epochs": 7, "n_neighbors": 3}, {"n_neighbors": "8"}, graph=GRAPH)
    assert (settings.epochs, settings.n_neighbors) == (7, 8)
    assert settings.momentum == AFGRLSettings.model_fields["momentum"].default


def test_settings_that_follow_the_graph_have_no_default():
    def missing(settings):
        return {name for name, field in settings.model_fields.items() if field.is_required()}

    assert missing(AFGRLSettings) == {"epochs", "n_components", "predictor_width", "n_hops", "n_neighbors"}
    assert missing(NodeEmbedderSettings) == {
        "steps", "dropout", "n_components", "encoder_width", "predictor_width", "skip", "input", "n_hops",
        "n_neighbors", "refresh_every", "neighbor_weight",
    }  # fmt: skip
    assert missing(DeepWalkSettings) == {"epochs"}
    with pytest.raises(UserError, match="'epochs' has no default without a graph; set it"):
        resolve(AFGRLSettings)


@pytest.mark.parametrize("method", list(available_methods()))
def test_graph_defaults_fill_exactly_the_fields_without_a_default(method):
    cls = available_methods()[method].settings_class
    required = {name for name, field in cls.model_fields.items() if field.is_required()}
    assert cls.graph_defaults(GRAPH, {}).keys() == required
    assert resolve(cls, graph=GRAPH) == resolve(cls, cls.graph_defaults(GRAPH, {}))


@pytest.mark.parametrize(
    ("n", "x", "expected"),
    [
        (10, torch.ones(10, 1), (0, 2000, 512, 1024)),
        (LARGE, torch.ones(LARGE, 1), (0, 2000, 512, 1024)),
        (LARGE + 1, torch.ones(LARGE + 1, 1), (0, 2000, 128, 256)),
        (10, bag_of_words(10), (2, 100, 512, 1024)),
        (LARGE + 1, bag_of_words(LARGE + 1), (2, 50, 512, 1024)),
    ],
    ids=["small dense", "medium dense", "large dense", "small sparse", "large sparse"],
)
def test_defaults_of_afgrl_follow_the_features_and_the_size(n, x, expected):
    settings = resolve(AFGRLSettings, graph=Graph(x, RING[n]))
    assert (settings.n_hops, settings.epochs, settings.n_components, settings.predictor_width) == expected


def complete_graphs(n):
    """Complete graphs of 7 nodes: degree 6."""
    block = torch.arange(n // 7 * 7).view(-1, 7)
    pairs = torch.combinations(torch.arange(7)).T
    graph = Graph(bag_of_words(len(block) * 7), block[:, pairs].transpose(0, 1).reshape(2, -1))
    assert graph.mean_degree == 6
    return graph


@pytest.mark.parametrize(("n", "epochs"), [(7, 300), (LARGE + 7, 150)])
def test_one_hop_is_the_default_for_sparse_features_and_many_neighbors(n, epochs):
    settings = resolve(AFGRLSettings, graph=complete_graphs(n))
    assert (settings.n_hops, settings.epochs, settings.n_components) == (1, epochs, 512)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (Graph(torch.ones(LARGE, 1), RING[LARGE]), ("svd", "svd+ppr", 512, 1024, 4, 0.25, 700, 50)),
        (Graph(torch.ones(LARGE + 1, 1), RING[LARGE + 1]), ("svd", "svd+ppr", 1024, 1024, 4, 0.25, 700, 100)),
        (complete_graphs(7000), ("own", "svd", 512, 512, 12, 0.7, 600, 100)),
        (complete_graphs(LARGE + 7), ("svd", "svd+ppr", 1024, 1024, 12, 0.7, 400, 200)),
        (Graph(bag_of_words(10_000), RING[10_000]), ("features", "svd+ppr", 512, 512, 12, 0.7, 300, 20)),
        (Graph(bag_of_words(LARGE), RING[LARGE]), ("features", "svd+ppr", 512, 512, 12, 0.7, 300, 50)),
        (Graph(bag_of_words(LARGE + 1), RING[LARGE + 1]), ("features", "svd+ppr", 1024, 1024, 12, 0.7, 400, 100)),
    ],
    ids=[
        "dense",
        "dense, large",
        "many neighbors",
        "many neighbors, large",
        "few neighbors, small",
        "few neighbors",
        "few neighbors, large",
    ],
)
def test_defaults_of_batches_follow_the_features_the_degrees_and_the_size(graph, expected):
    settings = resolve(NodeEmbedderSettings, graph=graph)
    assert settings.batch_size == 1024
    names = ("input", "skip", "n_components", "encoder_width", "n_neighbors", "dropout", "steps", "refresh_every")
    assert tuple(getattr(settings, name) for name in names) == expected


def test_huge_graphs_have_few_columns_and_refreshes():
    n = HUGE + 1
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    for x in (torch.ones(n, 1), bag_of_words(n)):
        settings = resolve(NodeEmbedderSettings, graph=Graph(x, ring))
        assert (settings.n_components, settings.encoder_width) == (128, 128)
        assert (settings.steps, settings.refresh_every) == (400, 200)
    assert settings.searches_clusters(n, torch.device("cpu"))
    assert not settings.searches_clusters(n, torch.device("cuda"))
    assert settings.searches_clusters(2_000_001, torch.device("cuda"))


def test_large_graphs_with_many_neighbors_and_features_have_a_narrow_encoder():
    """Vectors without training fill the other half of the embedding."""
    edges = complete_graphs(LARGE + 7).edge_index
    n = int(edges.max()) + 1
    for n_features, given, expected in (
        (512, {}, 512), (511, {}, 1024), (5000, {"n_components": 2000}, 2000), (100, {"n_components": 64}, 32),
        (512, {"skip": "none"}, 1024),
    ):  # fmt: skip
        words = sp.csr_array((np.ones(n, np.float32), (np.arange(n), np.arange(n) % n_features)), shape=(n, n_features))
        assert resolve(NodeEmbedderSettings, given, graph=Graph(words, edges)).encoder_width == expected
    assert resolve(NodeEmbedderSettings, graph=Graph(words, RING[LARGE][:, : n - 1])).encoder_width == 1024


def test_small_graphs_take_few_steps():
    steps = [resolve(NodeEmbedderSettings, graph=Graph(torch.ones(n, 1), RING[10])).steps for n in (10, 77, 800, 7000)]
    assert steps == [30, 30, 200, 700]


def test_no_setting_selects_another_algorithm():
    with pytest.raises(UserError, match="Unknown setting 'epochs'"):
        resolve(NodeEmbedderSettings, {"epochs": 3}, graph=GRAPH)
    with pytest.raises(UserError, match="Unknown setting 'steps'"):
        resolve(AFGRLSettings, {"steps": 3}, graph=GRAPH)
    full, batches = resolve(AFGRLSettings, {"epochs": 3}, graph=GRAPH), resolve(NodeEmbedderSettings, graph=GRAPH)
    assert (full.n_steps, full.step_name, full.in_batches) == (3, "epoch", False)
    assert (batches.n_steps, batches.step_name, batches.in_batches) == (30, "step", True)


def test_the_rules_of_the_default_apply_in_order():
    """Each rule holds for some graph, and changes what the rules before it gave."""
    sizes, words = (100, 20_000, LARGE + 1, HUGE + 1), (0.01, 0.5)
    graphs = [Facts(n, 5000, density, degree) for n in sizes for density in words for degree in (2, 9)]
    for position, rule in enumerate(RULES):
        holding = [facts for facts in graphs if rule.holds(facts)]
        assert holding, rule.condition
        for facts in holding:
            before = {
                name: value for one in RULES[:position] if one.holds(facts) for name, value in one.settings.items()
            }
            assert before | rule.settings != before, rule.condition
        assert rule.reason


def test_settings_that_contradict_each_other_give_one_sentence():
    with pytest.raises(UserError, match=r"^These settings contradict each other: .*encoder_width equals") as caught:
        resolve(NodeEmbedderSettings, {"skip": "none", "encoder_width": 700}, graph=GRAPH)
    assert "\n" not in str(caught.value)


def test_given_settings_override_those_of_the_graph():
    graph = Graph(torch.ones(LARGE + 1, 1), RING[LARGE + 1])
    settings = resolve(AFGRLSettings, {"n_components": 64, "epochs": 7, "n_hops": 3}, graph=graph)
    assert (settings.n_components, settings.predictor_width, settings.epochs, settings.n_hops) == (64, 128, 7, 3)
    assert resolve(AFGRLSettings, {"n_components": 64, "predictor_width": 5}, graph=graph).predictor_width == 5
    smaller = Graph(torch.ones(LARGE, 1), RING[LARGE])
    assert resolve(NodeEmbedderSettings, {"n_components": 64}, graph=smaller).encoder_width == 128
    assert resolve(NodeEmbedderSettings, {"n_components": 64, "skip": "none"}, graph=smaller).encoder_width == 64


@pytest.mark.parametrize("given", ["64", "64.0", 64.0, 64])
def test_settings_that_depend_on_others_read_them_as_the_fields_do(given):
    settings = resolve(AFGRLSettings, {"n_components": given, "epochs": "1"}, graph=GRAPH)
    assert (settings.n_components, settings.predictor_width) == (64, 128)
    layers = {"walks_per_node": "3"}, {"batch_size": given}
    assert resolve(DeepWalkSettings, *layers, graph=Graph(torch.ones(100, 1), RING[10])).epochs == 5  # 300 walks


@pytest.mark.parametrize("given", ["x", 0, "0", -1, None, 2.5, float("inf"), float("nan")])
@pytest.mark.parametrize(
    ("cls", "name"),
    [(AFGRLSettings, "n_components"), (NodeEmbedderSettings, "encoder_width"), (DeepWalkSettings, "batch_size")],
)
def test_an_invalid_value_that_others_depend_on_is_named(cls, name, given):
    with pytest.raises(UserError, match=f"The setting {name!r} cannot be {given!r}"):
        resolve(cls, {name: given}, graph=GRAPH)


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        ({"n_neigbors": 3}, "Unknown setting 'n_neigbors'; did you mean 'n_neighbors'"),
        ({"zzz": 3}, "possible values: "),
        ({"n_neighbors": "three"}, "'n_neighbors' cannot be 'three'"),
        ({"n_neighbors": 0}, "greater than or equal to 1"),
        ({"momentum": 2}, "'momentum' cannot be 2"),
        ({"schedule": "linear"}, "'schedule' cannot be 'linear'"),
        ({"normalization": "layer"}, "'normalization' cannot be 'layer'"),
    ],
)
def test_an_invalid_setting_gives_one_sentence(layer, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        resolve(AFGRLSettings, layer, graph=GRAPH)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", available_methods())
@pytest.mark.parametrize("value", [1e300, 1e-300])
def test_numbers_beyond_single_precision_are_refused(method, value):
    """PyTorch's kernels raised "value cannot be converted to type float without overflow"."""
    cls = available_methods()[method].settings_class
    numbers = [name for name, field in cls.model_fields.items() if field.annotation is float]
    assert "learning_rate" in numbers
    for name in numbers:
        with pytest.raises(UserError, match=f"The setting '{name}' cannot be"):
            resolve(cls, {name: value}, graph=GRAPH)


def test_the_recipe_paper_equals_the_table_of_the_paper():
    """D, predictor width, learning rate, epochs and k of the appendix's table."""
    table = {
        "wikics": (1024, 2048, 0.001, 1500, 8),
        "computers": (512, 1024, 0.001, 4000, 4),
        "photo": (512, 1024, 0.001, 3000, 4),
        "cs": (1024, 2048, 0.001, 1000, 4),
        "physics": (256, 512, 0.01, 1000, 8),
    }
    for dataset, row in table.items():
        settings = resolve(AFGRLSettings, recipe("afgrl", "paper", dataset), graph=GRAPH)
        names = ("n_components", "predictor_width", "learning_rate", "epochs", "n_neighbors")
        assert tuple(getattr(settings, name) for name in names) == row, dataset
        assert (settings.n_clusters, settings.n_restarts, settings.momentum, settings.n_layers) == (100, 5, 0.9, 1)


@pytest.mark.parametrize("method", list(available_methods()))
def test_every_recipe_of_every_method_is_valid(method):
    for name in ("default", *(["paper"] if method != DEFAULT_METHOD else [])):
        for dataset in ("", "wikics", "computers", "photo", "cs", "physics"):
            resolve(available_methods()[method].settings_class, recipe(method, name, dataset), graph=GRAPH)


def test_the_default_embedding_has_no_published_settings():
    with pytest.raises(UserError, match="name a method, such as --method afgrl"):
        recipe(DEFAULT_METHOD, "paper")


def test_an_unknown_recipe_is_refused():
    with pytest.raises(UserError, match="Unknown recipe 'papr'; did you mean 'paper'"):
        recipe("afgrl", "papr")


def test_settings_from_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("n_neighbors = 8\n")
    assert settings_from_file(file) == {"n_neighbors": 8}
    file.write_text("[run]\nsource = 'photo'\n[settings]\nepochs = 3\n")
    assert settings_from_file(file) == {"epochs": 3}
    file.write_text("epochs = \n")
    with pytest.raises(UserError, match="cannot be read"):
        settings_from_file(file)
    with pytest.raises(UserError, match="Settings file not found"):
        settings_from_file(tmp_path / "none.toml")


def test_assignments():
    assert settings_from_assignments(["a=1", " b = x=y "]) == {"a": "1", "b": "x=y"}
    with pytest.raises(UserError, match="name=value"):
        settings_from_assignments(["a"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "tables within tables that are too deep"),
        ("steps = " + "9" * 5000, "has thousands of digits"),
        ("settings = 3", "must be a table"),
        ("steps = ", "cannot be read"),
        ("#" * (1 << 20) + "\n", "is larger than 1 MiB"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_broken_settings_file_is_one_sentence(content, sentence, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=sentence) as caught:
        settings_from_file(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["/dev/zero", "."])
def test_settings_are_read_from_files_only(path):
    with pytest.raises(UserError, match="is not a file, so it has no settings"):
        settings_from_file(Path(path))


def test_long_values_are_cut_in_messages():
    for value in ("9" * 5000, 10**5000):
        with pytest.raises(UserError) as caught:
            resolve(NodeEmbedderSettings, {"dropout": value}, graph=complete_graphs(7))
        assert len(str(caught.value)) < 250
