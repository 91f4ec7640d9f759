"""Tables that practitioners try first: from scikit-learn, or small ones of the same shape."""

import itertools

import numpy as np
import pandas as pd
from sklearn import datasets

BUNDLED = ("iris", "wine", "diabetes", "breast_cancer")
N = 120


def bundled(name):
    return getattr(datasets, f"load_{name}")(as_frame=True).frame


def penguins(rng):
    species = rng.integers(0, 3, N)
    table = pd.DataFrame(
        {
            "species": np.array(["Adelie", "Gentoo", "Chinstrap"])[species],
            "island": rng.choice(["Biscoe", "Dream", "Torgersen"], N),
            "bill_length_mm": (39 + 4 * species + rng.normal(size=N)).round(1),
            "body_mass_g": (3700 + 600 * species + rng.integers(-400, 400, N)).round(-1),
            "sex": rng.choice(["male", "female"], N),
        }
    )
    table.loc[3, ["bill_length_mm", "sex"]] = None
    return table


def gapminder(rng):
    """One row per country and year; no column identifies a row, but the counts of people all differ."""
    pairs = list(itertools.product([f"country {i}" for i in range(20)], range(1952, 2008, 10)))
    return pd.DataFrame(
        {
            "country": [country for country, _ in pairs],
            "year": [year for _, year in pairs],
            "lifeExp": rng.normal(60, 8, len(pairs)).round(1),
            "pop": rng.permutation(len(pairs)) * 7919 + 100_000,
            "gdpPercap": rng.lognormal(8, 1, len(pairs)),
        }
    )


def airports(rng):
    codes = ["".join(letters) for letters in itertools.product("ABCDE", repeat=3)][:N]
    return pd.DataFrame(
        {
            "name": [f"{code.title()} International" for code in codes],
            "iata": rng.permutation(codes),
            "continent": [["NA", "EU", "AS", "SA"][i % 4] for i in range(N)],
            "latitude": rng.normal(0, 40, N).round(4),
            "opened": [f"{1930 + i % 80}-0{1 + i % 9}-15" for i in range(N)],
            "hub": [i % 5 == 0 for i in range(N)],
        }
    )


def cities(rng):
    return pd.DataFrame(
        {
            "geonameid": rng.permutation(N) * 37 + 2_000_000,
            "name": ["Paris", *(f"Town {i}" for i in range(1, N))],
            "population": rng.permutation(N) * 1009 + 1000,
            "country": [["NA", "DE", "FR", "US"][i % 4] for i in range(N)],
        }
    )
