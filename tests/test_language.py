"""The vocabulary check finds planted words and accepts clean text."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "check_language.py"
spec = importlib.util.spec_from_file_location("check_language", TOOL)
check_language = importlib.util.module_from_spec(spec)
sys.modules["check_language"] = check_language
spec.loader.exec_module(check_language)
BANNED = check_language.read_list()


def findings(tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    return check_language.check_file(file, BANNED)


def words(tmp_path, name, text):
    return [found for _, found, _ in findings(tmp_path, name, text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The datasets at hand.", "at hand"),
        ("All is well but for\nthe edges.", "but for"),  # a phrase may cross lines
        ("The Label-Free protocol.", "Label-Free"),
        ("Exit status 2.", "Exit status"),
        ("20 k-means fits a look.", "fits a look"),
        ("a training of 300 epochs", "a training"),
        ("This is no number.", "is no number"),
        ("Every command but `explore`.", "Every command but"),
        ("The normalised neighbours.", "neighbour"),
        ("The normalised adjacency.", "normalis"),
    ],
)
def test_banned_words_are_found_in_documents(tmp_path, text, expected):
    assert expected in words(tmp_path, "page.md", text)


def test_a_finding_has_the_line_and_the_replacement(tmp_path):
    assert findings(tmp_path, "page.md", "One.\nTwo.\nFix it anew.\n") == [(3, "anew", "again")]


@pytest.mark.parametrize(
    "text",
    [
        "Forthcoming amendments of a retold story.",
        "A training step, a training run and a training set.",
        "There is no file or folder x.csv; there are no labels.",
        "All but one of the rows.",
        "A parameter that is None has no color of its own; all that are left.",
        "An optimistic realist and a specialist.",
        'A span with aria-labelledby="title".',
        "Whether 5 times a second or 20 minutes a day.",
    ],
)
def test_common_english_is_accepted(tmp_path, text):
    assert words(tmp_path, "page.md", text) == []


def test_python_strings_docstrings_and_comments_are_checked(tmp_path):
    text = '"""Do it anew."""\nx = "lies in"  # mend\ny = f"but for {anew} it"\nz = ("nothing "\n     "but")\n'
    assert findings(tmp_path, "module.py", text) == [
        (1, "anew", "again"),
        (2, "lies in", "is in, saved to, stored in"),
        (2, "mend", "fix"),
        (3, "but for", "except, apart from"),
        (4, 'nothing " "but', "only, except"),
    ]


def test_identifiers_are_checked_for_spelling_only(tmp_path):
    assert words(tmp_path, "module.py", "told = anew(mend)\nnormalised_rows = Neighbour()\n") == [
        "Neighbour",
        "normalis",
    ]


def test_separate_strings_do_not_form_a_phrase(tmp_path):
    assert words(tmp_path, "module.py", 'x = ["at", "hand"]\n') == []
    assert words(tmp_path, "module.py", 'x = ["at",\n     "hand"]\n') == []


def test_a_marker_allows_a_line(tmp_path):
    assert words(tmp_path, "page.md", "`label-free` is now `last-epoch`. <!-- language: allow -->\n") == []
    assert words(tmp_path, "module.py", 'OLD = "label-free"  # language: allow\nNEW = "mend"\n') == ["mend"]
    assert words(tmp_path, "module.py", "colour = 1  # language: allow\ncentre = 2\n") == ["centre"]


def test_the_command_prints_findings_and_exits_with_1(tmp_path):
    file = tmp_path / "page.md"
    file.write_text("Mend it.\n")
    done = subprocess.run([sys.executable, TOOL, file], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 1
    assert done.stdout == f"{file}:1: 'Mend' → write 'fix'\n"
    file.write_text("Fix it.\n")
    assert subprocess.run([sys.executable, TOOL, file], capture_output=True).returncode == 0


def test_every_entry_of_the_list_has_a_replacement_and_compiles():
    assert len(BANNED) > 100
    assert all(entry.instead for entry in BANNED)
    assert not any(entry.pattern.fullmatch("") for entry in BANNED)


def test_third_party_code_and_results_are_not_checked():
    checked = {str(file.relative_to(check_language.ROOT)) for file in check_language.files_below(check_language.ROOT)}
    assert {
        "README.md",
        "docs/glossary.md",
        "src/afgrl/graph/__init__.py",
        "src/afgrl/report/static/page.js",
    } <= checked
    assert not any("plotly" in name or name.startswith(("results/", "tests/", ".venv")) for name in checked)
