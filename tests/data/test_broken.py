import pytest

from tests.data.broken import BROKEN, DOCUMENT, document, outcome


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.what)
def test_broken_input_gets_one_sentence_or_a_repair(case, tmp_path):
    repaired, sentence = outcome(case, tmp_path)
    assert repaired == bool(case.about)
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence
    assert "Traceback" not in sentence


def test_the_document_says_what_is_said():
    assert len(BROKEN) >= 40
    assert DOCUMENT.read_text() == document()
