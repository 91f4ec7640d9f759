import pytest

from tests.data.broken import BROKEN, DOCUMENT, document, outcome


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.problem)
def test_broken_input_gets_an_error_or_a_fix_of_one_sentence(case, tmp_path):
    accepted, text = outcome(case, tmp_path)
    assert accepted == bool(case.message)
    assert text.endswith((".", "?"))
    assert "\n" not in text
    assert "Traceback" not in text


def test_the_document_shows_the_current_messages():
    assert len(BROKEN) >= 40
    assert DOCUMENT.read_text() == document()
