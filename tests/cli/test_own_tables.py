"""Names, row numbers and missing values of a user's tables, from the file to the answers of the commands."""

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from afgrl.analysis.neighbors import find_similar
from afgrl.cli.entry_point import app
from afgrl.data.tables.options import ReadOptions
from afgrl.runs.embeddings import read_parquet
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from tests.data import well_known

QUICK = ["--set", "steps=5", "--set", "n_components=16", "--device", "cpu", "--quiet"]


def afgrl(*arguments):
    answer = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80"})
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    return answer


@pytest.fixture(scope="module")
def cities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cities")
    table = well_known.cities(np.random.default_rng(0))
    table["founded"] = [f"{1000 + i}-01-31" for i in range(len(table))]
    table["capital"] = table.name == "Paris"
    table.to_csv(folder / "cities.csv", index=False)
    answer = afgrl("fit", folder / "cities.csv", "--knn-graph", 5, "--out", folder / "run", *QUICK)
    assert answer.exit_code == 0, answer.stderr
    return folder


def test_a_run_keeps_types_and_names(cities):
    run = Run.open(cities / "run")
    schema = run.nodes().schema
    kinds = {"population": pa.int64(), "founded": pa.date32(), "capital": pa.bool_(), "country": pa.string()}
    assert {name: schema.field(name).type for name in kinds} == kinds
    column, names = run.names()
    assert (column, names[0].as_py()) == ("name", "Paris")
    assert run.dataset().node_names[:2].tolist() == ["Paris", "Town 1"]


def test_a_name_finds_the_node_and_the_answer_has_names_and_columns(cities):
    run = Run.open(cities / "run")
    paris = str(run.nodes()["id"][0])
    found = json.loads(afgrl("search", cities / "run", "paris", "-k", 3, "--json").stdout)
    assert list(found) == [paris]
    assert found == json.loads(afgrl("search", cities / "run", paris, "-k", 3, "--json").stdout)
    first = found[paris][0]
    row = run.nodes()["id"].to_pylist().index(first["id"])
    expected = run.nodes().slice(row, 1).to_pylist()[0]
    assert first["name"] == expected["name"] == f"Town {row}"
    wanted = {name: expected[name] for name in ("population", "country", "capital")}
    assert first["columns"] == wanted | {"founded": f"{1000 + row}-01-31"}
    shown = afgrl("search", cities / "run", "paris", "-k", 3).stdout
    assert f"most similar to Paris ({paris})" in shown
    assert all(word in shown for word in (first["name"], "population", f"{expected['population']:,}"))
    assert max(map(len, shown.splitlines())) <= 80


def test_a_name_that_several_nodes_have_is_an_error(cities):
    answer = afgrl("search", cities / "run", "town 1")  # Town 10 contains it too, but one is equal
    assert answer.exit_code == 0
    answer = afgrl("search", cities / "run", "town")
    assert answer.exit_code == 2
    assert answer.stderr.startswith("119 nodes have 'town' in their name; pass an id: 'Town 1 (")
    assert answer.stderr.count("'Town ") == 10
    assert answer.stderr.endswith(" and 109 more; -k 119 lists all.\n")
    assert afgrl("search", cities / "run", "town", "-k", 2).stderr.count("'Town ") == 2
    every = afgrl("search", cities / "run", "town", "-k", 200).stderr
    assert (every.count("'Town "), "more" in every) == (119, False)
    assert "Unknown node 'Pariss'; did you mean 'Paris'?" in afgrl("search", cities / "run", "Pariss").stderr


def test_clusters_show_the_names_of_central_nodes(cities):
    answer = json.loads(afgrl("cluster", cities / "run", "-k", 3, "--json").stdout)
    nodes = Run.open(cities / "run").nodes().to_pydict()
    name_of = dict(zip(nodes["id"], nodes["name"], strict=True))
    for cluster in answer["clusters"]:
        assert cluster["closest_names"] == [name_of[node_id] for node_id in cluster["closest"]]
    first = answer["clusters"][0]
    shown = " ".join(afgrl("cluster", cities / "run", "-k", 3).stdout.split())
    assert f"({first['closest'][0]})" in shown


def test_check_says_what_was_chosen(cities):
    shown = " ".join(afgrl("check", cities / "cities.csv", "--knn-graph", 5).stdout.split())
    assert "Node ids: column 'geonameid' of cities.csv; next best: 'name' (choose with --id)." in shown
    assert "Names shown beside the ids: column 'name' of cities.csv; --name chooses another column, or none." in shown
    options = ["--id", "none", "--name", "none", "--na-values", "NA", "--na-values", "DE", "--no-default-na"]
    answer = json.loads(afgrl("check", cities / "cities.csv", "--knn-graph", 5, *options, "--json").stdout)
    texts = [message["text"] for message in answer["messages"]]
    assert "Node ids: row numbers of cities.csv, from 0." in texts
    assert any(text.startswith("Cells of cities.csv read as missing values: 'DE' (30), 'NA' (30);") for text in texts)
    assert not any("Names" in text for text in texts)


def test_options_are_stored_and_repeated():
    read = ReadOptions(id="none", name="town", na_values=("?", "-"), keep_default_na=False)
    spec = RunSpec("points.csv", read=read)
    assert spec.command().endswith("--id none --name town --na-values '?' --na-values - --no-default-na")
    import tomllib

    assert RunSpec.from_toml(tomllib.loads(spec.to_toml())) == spec
    assert "[run.read]\n\n" in RunSpec("points.csv").to_toml()  # defaults are not written


def test_a_command_on_a_run_reads_files_as_the_run_was(tmp_path):
    """Ids that are also what columns are called: only --header tells."""
    words = [f"w{i}" for i in range(20)]
    rows = [("word", "synonym"), ("synonym", words[0]), *pairwise(words), (words[-1], "word")]
    for name, written in (("pairs", rows), ("new", [("word", "synonym"), ("x", "word")])):
        (tmp_path / f"{name}.csv").write_text("".join(f"{a},{b}\n" for a, b in written))
    answer = json.loads(afgrl("check", tmp_path / "pairs.csv", "--json").stdout)
    assert answer["edges"] == len(rows) - 1
    answer = afgrl("fit", tmp_path / "pairs.csv", "--header", "no", "--out", tmp_path / "run", *QUICK)
    assert answer.exit_code == 0, answer.stderr
    run = Run.open(tmp_path / "run")
    assert run.dataset().graph.n_edges == len(rows)
    assert run.spec().read == ReadOptions(header="no")
    assert " --header no " in run.spec().command(tmp_path / "config.toml")
    answer = afgrl("embed", tmp_path / "run", "--graph", tmp_path / "new.csv", "--alone", "--device", "cpu")
    assert answer.exit_code == 0, answer.stderr
    assert sorted(read_parquet(tmp_path / "run" / "embeddings-new.parquet")[0]) == ["synonym", "word", "x"]
    answer = afgrl("check", tmp_path / "pairs.csv", "--header", "perhaps")
    assert (answer.exit_code, answer.stderr.count("Unknown header 'perhaps'; possible values: no, yes.")) == (2, 1)


def test_new_points_have_a_header_if_those_of_the_run_had(tmp_path):
    table = well_known.penguins(np.random.default_rng(0))[:60]
    for header in (True, False):
        folder = tmp_path / str(header)
        folder.mkdir()
        table.to_csv(folder / "points.csv", index=False, header=header)
        table[50:].to_csv(folder / "new.csv", index=False, header=header)
        options = [] if header else ["--header", "no"]
        afgrl("fit", folder / "points.csv", "--knn-graph", 5, *options, "--out", folder / "run", *QUICK)
        answer = afgrl("embed", folder / "run", "--graph", folder / "new.csv", "--device", "cpu")
        assert answer.exit_code == 0, answer.stderr
        assert len(read_parquet(folder / "run" / "embeddings-new.parquet")[0]) == 10


def test_numbered_rows_of_another_file_are_new_nodes(tmp_path):
    """Row 0 of a new table is not row 0 of the training table."""
    table = well_known.penguins(np.random.default_rng(0))
    table.to_csv(tmp_path / "penguins.csv", index=False)
    table[100:].to_csv(tmp_path / "new.csv", index=False)
    afgrl("fit", tmp_path / "penguins.csv", "--knn-graph", 5, "--out", tmp_path / "run", *QUICK)
    answer = afgrl("embed", tmp_path / "run", "--graph", tmp_path / "new.csv", "--device", "cpu")
    assert answer.exit_code == 0, answer.stderr
    ids, vectors = read_parquet(tmp_path / "run" / "embeddings-new.parquet")
    assert ids.tolist() == list(range(20))
    old = Run.open(tmp_path / "run").embedding()[1]
    cosine = (vectors * old[100:]).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(old[100:], axis=1)
    assert cosine.min() > 0.9  # near their copies in the training table, which row numbers do not lead to
    assert len(find_similar(Run.open(tmp_path / "run"), ["0"], 3)["0"]) == 3
