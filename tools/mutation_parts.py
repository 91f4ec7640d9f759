"""What is mutated, which tests judge it, and what is excluded."""

# ruff: noqa: SIM905  # lists of words are easier to read
from __future__ import annotations

import re

PARTS: dict[str, dict[str, list[str]]] = {
    "ops": {
        "files": [
            "src/afgrl/ops/**/*.py",
            "!src/afgrl/ops/**/*triton*.py",
            "!src/afgrl/ops/infonce/kernels.py",
            "!src/afgrl/ops/infonce/tiles.py",
        ],
        "tests": ["tests/ops", "tests/methods/test_positives.py", "tests/train"],
    },
    "train": {
        "files": ["src/afgrl/train/*.py"],
        "tests": ["tests/train", "tests/experiment", "tests/methods/test_contract.py"],
    },
    "evaluate": {"files": ["src/afgrl/evaluate/*.py"], "tests": ["tests/evaluate"]},
    "data/tables": {"files": ["src/afgrl/data/tables/*.py"], "tests": ["tests/data"]},
}
# Excluded: constants and functions that change speed or memory but no result, statements that mention them, and what
# only a GPU runs.
PERFORMANCE = set(
    "SEGMENT KERNEL_HOLDS COLUMNS NONZERO_COST COLUMN_MULTIPLE EAGER_STEPS MEMORY _logistic_bytes".split()
)
PERFORMANCE_STATEMENT = re.compile(r"_BYTES|bytes_per|_chunks\(")
GPU_STATEMENT = re.compile(r"takes_kernels|is_cuda|device\.type [=!]= .cuda.|OLDEST_GPU")
GPU_DEFINITIONS = {"CapturedSteps", "capture_stream", "SideStream", "_stream"}
