"""Valid tables of edges as people write them, whose words are hard to tell apart: ids that begin with the sign of a
comment, and ids that are also names of columns. All edges must be read."""

import gzip
import random

from tests.fuzz.corpus import Case

# Nothing else tells that these are names of columns if ids are called so too.
NAMES = (
    ("word", "synonym"), ("source", "target"), ("caller", "callee"), ("hashtag", "user"), ("from", "to"),
    ("Word", "NextWord"), ("channel", "member"), ("user_name", "follower_name"),
)  # fmt: skip
ANY_NAMES = (*NAMES, ("alpha", "beta"), ("x", "y"), ("#tag", "#other"))  # above numbers
SEPARATORS = {"edges.csv": ",;|\t", "pairs.csv": ",;|\t", "edges.tsv": "\t", "edges.txt": " ,\t", "links.edges": " \t"}


def written(seed: int) -> tuple[Case, list[str], int]:
    """Files, options of the command, and the number of edges."""
    rng = random.Random(seed)
    file = rng.choice(list(SEPARATORS))
    separator = rng.choice(SEPARATORS[file])
    header = rng.choice(["found", "found", "yes", "no"])
    numbers = file != "pairs.csv" and rng.random() < 0.5
    names = rng.choice(ANY_NAMES if numbers or header == "yes" else NAMES)
    if names[0][0] == "#":
        header = "yes"
    ids = [f"{rng.choice('abcdefg')}{i}" for i in range(12)] + [*names]
    ids += [] if header == "no" else ["#a", "%b", "##c", "#", "%d e".replace(" ", "" if separator == " " else " ")]
    if header == "no":
        ids = [name for name in ids if name[0] not in "#%"]
    edges = sorted({tuple(sorted(rng.sample(ids, 2))) for _ in range(30)})
    rng.shuffle(edges)
    rows = [[*(pair if rng.random() < 0.5 else pair[::-1]), *([str(rng.randint(1, 9))] * numbers)] for pair in edges]
    if header != "no":
        rows = [[*names, *(["weight"] * numbers)], *rows]
    lines = ["# written by hand"] * (rng.random() < 0.3) + [separator.join(row) for row in rows]
    files = {file: "\n".join(lines + [""] * rng.randint(0, 2)).encode()}
    if rng.random() < 0.2:
        files = {f"{file}.gz": gzip.compress(files[file])}
    source = next(iter(files))
    if rng.random() < 0.3:
        files["nodes.csv"] = ("id,age\n" + "".join(f"{name},{i}\n" for i, name in enumerate(ids))).encode()
        source = "." if file != "pairs.csv" else source
    return Case(files, source), [] if header == "found" else ["--header", header], len(edges)
