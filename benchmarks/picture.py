"""The picture in the README: 2-D projections of the demo's digits, from raw pixels and from the embedding.

python -m benchmarks.picture RUN                     # a run of `afgrl demo` → docs/pictures/demo.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import TSNE
from sklearn.preprocessing import normalize

from afgrl.data import load
from afgrl.runs.folder import Run

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "demo.png"


def main() -> None:
    run = Run.open(Path(sys.argv[1]))
    dataset, scores = load("demo"), run.scores()
    panels = {
        "raw pixels": (dataset.graph.x.numpy(), scores["baselines"]["raw"]),
        "AFGRL, trained without labels": (run.embedding()[1], scores["last-epoch"]),
    }
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), constrained_layout=True)
    for axis, (title, (vectors, parts)) in zip(axes, panels.items(), strict=True):
        projection = TSNE(random_state=0, init="pca", perplexity=40).fit_transform(normalize(vectors))
        for digit in range(10):
            points = projection[dataset.y == digit]
            axis.scatter(*points.T, s=5, color=plt.cm.tab10(digit), linewidths=0)
            axis.text(*np.median(points, axis=0), str(digit), fontsize=13, weight="bold", ha="center", va="center",
                      bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1})  # fmt: skip
        nmi, sim = parts["clustering"]["nmi"]["mean"], parts["similarity"]["sim@5"]["mean"]
        axis.set_title(f"{title}\nNMI {nmi:.3f}, Sim@5 {sim:.3f}", fontsize=11)
        axis.set_axis_off()
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
