from afgrl.evaluate.best import best_of_columns, lead, leads, sentence
from afgrl.evaluate.columns import COLUMNS, READOUT_COLUMNS


def parts(accuracy, nmi, sim=0.9):
    return {
        "classification": {"accuracy": {"values": accuracy}},
        "clustering": {"nmi": {"values": nmi}},
        "similarity": {"sim@5": {"values": [sim]}},
    }


def test_the_difference_on_the_same_splits_has_the_spread_of_the_pairs():
    a, b = [90, 80, 70], [89, 78, 69]  # splits differ by ten points, the vectors by one or two on each of them
    found = lead({"a": a, "b": b}, paired=True)
    assert (found.best, found.other, found.on_same) == ("a", "b", 3)
    assert abs(found.difference - 4 / 3) < 1e-12
    assert abs(found.spread - (1 / 3) ** 0.5) < 1e-12
    assert not found.is_noise
    other = lead({"a": a, "b": b}, paired=False)
    assert abs(other.spread - (100 + 301 / 3) ** 0.5) < 1e-12
    assert (other.on_same, other.is_noise) == (0, True)


def test_untrained_vectors_that_are_best_are_compared_with_the_trained_ones():
    values = {"trained": [1, 1], "svd": [2, 2], "ppr": [3, 3]}
    assert lead(values, "trained", paired=True)[:3] == ("ppr", "trained", 2)
    assert lead(values | {"trained": [4, 4]}, "trained", paired=True)[:3] == ("trained", "ppr", 1)
    assert lead(values, paired=True)[:3] == ("ppr", "svd", 1)


def test_one_sentence_for_the_first_score_of_each_task():
    scores = {"trained": parts([90, 91], [0.5, 0.6], 0.8), "svd": parts([89, 90.5], [0.5, 0.6], 0.9)}
    assert sentence(leads(scores, COLUMNS, "trained"), {"svd": "SVD"}) == (
        "Best accuracy: trained, 0.75 ± 0.35 above SVD on the same 2 splits (more than noise); best NMI: trained, "
        "equal to SVD; best Sim@5: SVD, 0.1000 above trained (measured once)."
    )
    several = leads(scores, COLUMNS, same_splits=False)
    assert "Best accuracy: trained, 0.75 ± 1.27 above svd (within noise)" in sentence(several, {})


def test_what_was_not_measured_has_no_best_value():
    assert leads({"trained": parts([90], [0.5])}, COLUMNS) == []
    assert leads({"trained": parts([90], [0.5]), "svd": {}}, COLUMNS) == []
    assert leads({"trained": parts([90], [0.5]), "svd": parts([90], [0.5])}, READOUT_COLUMNS) == []


def test_all_cells_that_show_the_best_value_are_the_best_of_their_column():
    rows = [["97.50 ± 0.52", "0.8", "–"], ["97.50 ± 0.10", "0.9", "0.1"], ["9.99 ± 0.60", "–", "–"]]
    assert best_of_columns(rows) == [[True, False, False], [True, True, False], [False, False, False]]
    assert best_of_columns(rows[:1]) == [[False, False, False]]
