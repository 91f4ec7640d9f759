"""The colors of the palette are distinguishable with every kind of color vision."""

import re

import numpy as np
import pytest

from afgrl.report.page import asset

# Linear RGB → as seen without one kind of cone (Machado, Oliveira and Fernandes 2009) → Oklab
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
RGB_TO_CONES = [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]]
CONES_TO_OKLAB = [[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]]


@pytest.mark.parametrize("vision", VISION)
def test_any_two_colors_are_distinguishable(vision):
    listed = re.search(r"const PALETTE = \[(.*?)\]", asset("colors.js"), re.DOTALL)[1]
    colors = re.findall(r"#[0-9a-f]{6}", listed)
    assert len(colors) == 12
    rgb = np.array([[int(color[at : at + 2], 16) for at in (1, 3, 5)] for color in colors]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(VISION[vision]).T, 0, 1)
    lab = np.cbrt(seen @ np.array(RGB_TO_CONES).T) @ np.array(CONES_TO_OKLAB).T
    distance = np.linalg.norm(lab[:, None] - lab, axis=2) + np.eye(len(lab))
    assert distance.min() > 0.07  # 0.076 is the smallest distance within the palette of Okabe and Ito
