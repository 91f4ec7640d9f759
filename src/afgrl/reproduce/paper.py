"""The published numbers, with datasets in the paper's order. None: out of memory in the paper."""

from __future__ import annotations

from typing import NamedTuple

DATASETS = ("wikics", "computers", "photo", "cs", "physics")
# Methods that are not in the paper, most of them published after it, in the order of their publication.
SINCE = ("cca_ssg", "graphmae2", "ns4gc", "sgrl", "signa")


class Statistics(NamedTuple):
    nodes: int
    edges: int
    features: int
    classes: int


STATISTICS = {
    "wikics": Statistics(11_701, 216_123, 300, 10),
    "computers": Statistics(13_752, 245_861, 767, 10),
    "photo": Statistics(7_650, 119_081, 745, 8),
    "cs": Statistics(18_333, 81_894, 6_805, 15),
    "physics": Statistics(34_493, 247_962, 8_415, 5),
}

# Test accuracy, percent.
ACCURACY: dict[str, tuple[float | None, ...]] = {
    "supervised_gcn": (77.19, 86.51, 92.42, 93.03, 95.65),
    "raw": (71.98, 73.81, 78.53, 90.37, 93.58),
    "node2vec": (71.79, 84.39, 89.67, 85.08, 91.19),
    "deepwalk": (74.35, 85.68, 89.44, 84.61, 91.77),
    "deepwalk_feats": (77.21, 86.28, 90.05, 87.70, 94.90),
    "dgi": (75.35, 83.95, 91.61, 92.15, 94.51),
    "gmi": (74.85, 82.21, 90.68, None, None),
    "mvgrl": (77.52, 87.52, 91.74, 92.11, 95.33),
    "grace": (77.97, 86.50, 92.46, 92.17, None),
    "gca": (77.94, 87.32, 92.39, 92.84, None),
    "bgrl": (76.86, 89.69, 93.07, 92.59, 95.48),
    "afgrl": (77.62, 89.88, 93.22, 93.27, 95.69),
}

# NMI and homogeneity.
CLUSTERING: dict[str, tuple[tuple[float, float] | None, ...]] = {
    "grace": ((0.4282, 0.4423), (0.4793, 0.5222), (0.6513, 0.6657), (0.7562, 0.7909), None),
    "gca": ((0.3373, 0.3525), (0.5278, 0.5816), (0.6443, 0.6575), (0.7620, 0.7965), None),
    "bgrl": ((0.3969, 0.4156), (0.5364, 0.5869), (0.6841, 0.7004), (0.7732, 0.8041), (0.5568, 0.6018)),
    "afgrl": ((0.4132, 0.4307), (0.5520, 0.6040), (0.6563, 0.6743), (0.7859, 0.8161), (0.7289, 0.7354)),
}

# Sim@5 and Sim@10.
SIMILARITY: dict[str, tuple[tuple[float, float] | None, ...]] = {
    "grace": ((0.7754, 0.7645), (0.8738, 0.8643), (0.9155, 0.9106), (0.9104, 0.9059), None),
    "gca": ((0.7786, 0.7673), (0.8826, 0.8742), (0.9112, 0.9052), (0.9126, 0.9100), None),
    "bgrl": ((0.7739, 0.7617), (0.8947, 0.8855), (0.9245, 0.9195), (0.9112, 0.9086), (0.9504, 0.9464)),
    "afgrl": ((0.7811, 0.7660), (0.8966, 0.8890), (0.9236, 0.9173), (0.9180, 0.9142), (0.9525, 0.9486)),
}

# -(best - worst) / best over the drop rates, percent; that table does not include WikiCS.
SENSITIVITY: dict[str, dict[str, tuple[float | None, ...]]] = {
    "classification": {"bgrl": (-4.00, -1.06, -0.20, -0.69), "gca": (-19.18, -5.48, -0.27, None)},
    "clustering": {"bgrl": (-11.57, -13.30, -0.78, -6.46), "gca": (-26.28, -23.27, -1.64, None)},
}
SENSITIVITY_DATASETS = DATASETS[1:]
