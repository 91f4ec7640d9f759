"""Text files: encodings, delimiters, headers, comments."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from afgrl import UserError, load
from afgrl.data.tables.options import ReadOptions
from tests.data.tables import EDGES, NODES, messages, write_tables


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "csv.gz", "semicolon", "utf-16"])
def test_the_file_format_does_not_change_the_graph(form, tmp_path):
    expected = load(str(write_tables(tmp_path))).graph
    other = tmp_path / "other"
    other.mkdir()
    for name, text in (("nodes", NODES), ("edges", EDGES)):
        if form == "parquet":
            rows = [line.split(",") for line in text.strip().split("\n")]
            columns = {key: [row[i] or None for row in rows[1:]] for i, key in enumerate(rows[0])}
            if "age" in columns:
                columns["age"] = [None if age is None else int(age) for age in columns["age"]]
            pq.write_table(pa.table(columns), other / f"{name}.parquet")
        elif form == "csv.gz":
            with gzip.open(other / f"{name}.csv.gz", "wt") as file:
                file.write(text)
        elif form == "utf-16":
            (other / f"{name}.csv").write_text(text, encoding="utf-16")
        else:
            sign = {"csv": ",", "tsv": "\t", "semicolon": ";"}[form]
            (other / f"{name}.{'tsv' if form == 'tsv' else 'csv'}").write_text(text.replace(",", sign))
    graph = load(str(other)).graph
    assert graph.ids.tolist() == expected.ids.tolist()
    assert torch.equal(graph.edge_index, expected.edge_index)
    assert torch.equal(graph.x.to_dense(), expected.x.to_dense())


@pytest.mark.parametrize("before", ["\n", "\r\n\n", "  \n"])
def test_empty_lines_before_the_header_are_skipped(tmp_path, before):
    (tmp_path / "nodes.csv").write_bytes((before + "id,v\na,1\nb,2\n").encode())
    (tmp_path / "edges.csv").write_bytes((before + "source,target\na,b\n").encode())
    assert load(str(tmp_path)).graph.ids.tolist() == ["a", "b"]


def test_line_numbers_count_comments_and_empty_lines(tmp_path):
    (tmp_path / "edges.tsv").write_text("# one\n# two\nsource\ttarget\na\tb\n\n# more\nb\tc\td\n")
    with pytest.raises(UserError, match=r"line 7: expected 2 cells, found 3"):
        load(str(tmp_path / "edges.tsv"))


def test_an_encoding_may_be_written_in_capitals(tmp_path):
    for name, text in (("nodes", NODES), ("edges", EDGES)):
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-16")
    assert load(str(tmp_path), options=ReadOptions(encoding="UTF-16")).graph.n == load(str(tmp_path)).graph.n


def test_an_edge_list_with_comments_keeps_its_commas(tmp_path):
    (tmp_path / "edges.txt").write_text("# roads\nfrom,to\nNew York,Paris\nParis,Oslo\n")
    assert load(str(tmp_path / "edges.txt")).graph.ids.tolist() == ["New York", "Paris", "Oslo"]
    (tmp_path / "edges.txt").write_bytes(b"# roads\na b\n" + b"b c\n" * 300_000 + "c ö\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"line 300003, column 3 is not utf-8"):
        load(str(tmp_path / "edges.txt"))


@pytest.mark.parametrize("text", ["0 1\n1 2\n2 5\n", "# from SNAP\n# nodes: 4\n0\t1\n1\t2\n2\t5\n", "0,1\n1,2\n2,5\n"])
def test_an_edge_list_needs_no_header(tmp_path, text):
    (tmp_path / "roads.txt").write_text(text)
    dataset = load(str(tmp_path / "roads.txt"))
    assert dataset.graph.ids.tolist() == [0, 1, 2, 5]
    assert dataset.graph.n_edges == 3
    assert any("structural features" in text for text in messages(dataset))


@pytest.mark.parametrize("name", ["edges.txt", "edges.csv", "edges.tsv"])
@pytest.mark.parametrize("prefix", ["", "u"])
@pytest.mark.parametrize("extra", [0, 1, 2])
def test_in_edge_lists_without_header_the_third_column_is_the_weight(name, prefix, extra, tmp_path):
    sign = {"txt": " ", "csv": ",", "tsv": "\t"}[name[-3:]]
    rows = [[f"{prefix}{i}", f"{prefix}{(i + 1) % 9}", f"{i}.5", "17"][: 2 + extra] for i in range(9)]
    (tmp_path / name).write_text("\n".join(sign.join(row) for row in rows) + "\n")
    for source in (tmp_path / name, tmp_path):
        graph = load(source).graph
        assert (graph.n, graph.n_edges) == (9, 9)
        assert (graph.edge_weight is not None) == (extra > 0)


def test_a_common_column_name_makes_a_header_even_if_it_is_also_a_node(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\nsource,b\nb,c\n")
    assert sorted(load(tmp_path / "edges.csv").graph.ids) == ["b", "c", "source"]


@pytest.mark.parametrize("n_columns", [3, 12_000])
def test_two_columns_with_the_same_name_are_an_error_in_wide_tables_too(n_columns, tmp_path):
    names = [f"c{i}" for i in range(n_columns)]
    header = ",".join(["id", *names, "c1"])
    nodes = header + "\na" + ",1" * (n_columns + 1) + "\n"
    with pytest.raises(UserError, match="two columns named 'c1'"):
        load(write_tables(tmp_path, nodes, "source,target\na,b\n"))


@pytest.mark.parametrize("text", ["0 1\n2 3\n", "0,1\n2,3\n"])
def test_a_first_row_of_numbers_is_not_a_header(text, tmp_path):
    (tmp_path / "edges.txt").write_text(text)
    assert load(tmp_path / "edges.txt").graph.ids.tolist() == [0, 2, 1, 3]


def test_common_column_names_may_have_capitals(tmp_path):
    (tmp_path / "edges.csv").write_text("Source,Target\nSource,b\nb,c\n")
    assert sorted(load(tmp_path / "edges.csv").graph.ids) == ["Source", "b", "c"]


def test_comments_may_be_indented(tmp_path):
    (tmp_path / "edges.txt").write_text("  # a comment\na b\n\t% another one\nb c\n")
    assert load(tmp_path / "edges.txt").graph.ids.tolist() == ["a", "b", "c"]


def test_node_tables_have_no_comments(tmp_path):
    dataset = load(write_tables(tmp_path, "id,v\n#a,1\n%b,2\n", "source,target\nx,#a\nx,%b\n"))
    assert dataset.graph.ids.tolist() == ["#a", "%b", "x"]


def test_cells_may_contain_delimiters_and_line_breaks_in_quotes(tmp_path):
    nodes = 'id,city,v\n"a,1","New\nYork",1\n"b","New\nYork",""\n'
    dataset = load(write_tables(tmp_path, nodes, 'source,target\n"a,1",b\n'))
    assert dataset.graph.ids.tolist() == ["a,1", "b"]
    assert dataset.feature_names == ["city=New\nYork", "v", "v is missing"]  # an empty cell in quotes is missing


def test_a_long_row_is_shortened_in_the_error(tmp_path):
    with pytest.raises(UserError, match=r"line 3: expected 2 cells, found 3: 'x{55},y…'\.$"):
        load(write_tables(tmp_path, "id,v\na,1\n" + "x" * 55 + ",yy,zz\n"))
    with pytest.raises(UserError, match=r"found 3: 'x{53},yy,zzz'\.$"):
        load(write_tables(tmp_path, "id,v\na,1\n" + "x" * 53 + ",yy,zzz\n"))


def test_the_delimiter_of_tsv_files_is_a_tab(tmp_path):
    (tmp_path / "edges.tsv").write_text("a,b,c\td,e\nb,c,d\ta,b,c\n")
    assert load(tmp_path / "edges.tsv").graph.ids.tolist() == ["a,b,c", "b,c,d", "d,e"]


def test_columns_may_be_separated_by_several_spaces(tmp_path):
    (tmp_path / "edges.txt").write_text("source   target\na     b\nb c\n")
    assert load(tmp_path / "edges.txt").graph.ids.tolist() == ["a", "b", "c"]


def test_spaces_around_column_names_are_ignored(tmp_path):
    dataset = load(write_tables(tmp_path, "id , age\na,1\nb,2\n", "source, target\na,b\n"))
    assert dataset.feature_names == ["age"]
