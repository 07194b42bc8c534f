"""Labels next to points, placed so that they hide neither points nor each other, as far as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foltr_audit.utils.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = 7.5  # points, height of the letters
_LETTER, _LINE = 0.62, 1.25  # about the width of a letter and the height of a line, relative to _SIZE
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_NEAR = 7.0  # points from the middle of a mark


class PointLabel(NamedTuple):
    """A point in data coordinates, and its label."""

    x: float
    y: float
    text: str
    colour: str


class _LabelBox(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float

    def shared(self, other: _LabelBox) -> float:
        """Area in common with another box."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0.0) * max(height, 0.0)


def place_labels(axis: Axes, labels: Sequence[PointLabel]) -> None:
    """Write each label at the side of its point where least is in its way, and fix the limits of the axes.

    Sizes are estimates, since matplotlib measures letters only when it draws them.
    """
    axis.set_xlim(axis.get_xlim())
    axis.set_ylim(axis.get_ylim())
    points, (width, height) = _in_points(axis, labels)
    taken = [_around(x, y, 8.0, 8.0) for x, y in points]
    for place, label in enumerate(labels):
        x, y = points[place].tolist()
        others = np.delete(points, place, axis=0)
        lines = label.text.split("\n")
        size = (_SIZE * _LETTER * max(map(len, lines)), _SIZE * _LINE * len(lines))
        boxes = [_placed(x, y, side, far, size) for far, side in product((1.0, 2.2, 3.6), _SIDES)]
        cost = [
            sum(box.shared(other) for other in taken)
            + _outside(box, width, height)
            + _mistaken(box, x, y, others)
            + 0.02 * number  # of equal places the first: right before left, near before far
            for number, box in enumerate(boxes)
        ]
        best = boxes[int(np.argmin(cost))]
        taken.append(best)
        axis.annotate(
            label.text,
            (label.x, label.y),
            ((best.left + best.right) / 2 - x, (best.bottom + best.top) / 2 - y),
            textcoords="offset points",
            fontsize=_SIZE,
            horizontalalignment="center",
            verticalalignment="center",
            arrowprops={
                "arrowstyle": "-",
                "color": label.colour,
                "linewidth": 0.8,
                "shrinkA": 0.0,
                "shrinkB": 4.0,
            },
            zorder=4,
        )


def _in_points(axis: Axes, labels: Sequence[PointLabel]) -> tuple[Floats, tuple[float, float]]:
    """Where the labelled points lie on the axes, in points (n, 2), and how large these are."""
    (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
    figure, box = axis.get_figure(root=True), axis.bbox
    inch = 72 if figure is None else figure.dpi
    width, height = 72 * box.width / inch, 72 * box.height / inch
    x = [(label.x - left) / (right - left) * width for label in labels]
    y = [(label.y - bottom) / (top - bottom) * height for label in labels]
    return np.array([x, y], dtype=np.float64).reshape(2, -1).T, (width, height)


def _around(x: float, y: float, width: float, height: float) -> _LabelBox:
    return _LabelBox(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def _placed(x: float, y: float, side: tuple[int, int], far: float, size: tuple[float, float]) -> _LabelBox:
    step = _NEAR * far
    return _around(
        x + side[0] * (step + size[0] / 2), y + side[1] * (step * 0.6 + size[1] / 2), size[0], size[1]
    )


def _outside(box: _LabelBox, width: float, height: float) -> float:
    """Ten times the area that lies beyond the axes."""
    area = (box.right - box.left) * (box.top - box.bottom)
    return 10 * (area - box.shared(_LabelBox(0.0, 0.0, width, height)))


def _mistaken(box: _LabelBox, x: float, y: float, others: Floats) -> float:
    """The cost of a label that lies nearer to another point (n, 2) than to its own."""

    def away(point: Floats) -> float:
        beside = np.clip(point, (box.left, box.bottom), (box.right, box.top))
        return float(np.hypot(*(point - beside)))

    own = np.array([x, y])
    elsewhere = [other for other in others if np.hypot(*(other - own)) > 3.0]
    return 40.0 * sum(away(other) <= away(own) + 1.0 for other in elsewhere)
