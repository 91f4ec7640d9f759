"""Checked by mypy in `make check`: each ignored error must be one, since unused ignores are errors too."""

from afgrl.estimators import AFGRL, BGRL

AFGRL(epochs=3, n_components=64, random_state=None)
AFGRL(epoch=3)  # type: ignore[call-arg]
AFGRL(epochs="3")  # type: ignore[arg-type]
AFGRL(positives="nearest")  # type: ignore[arg-type]
AFGRL(64)  # type: ignore[call-arg]
BGRL(n_neighbors=4)  # type: ignore[call-arg]
