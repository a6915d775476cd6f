"""What every figure must be: named axes that hold something, and text that can be read."""

from itertools import combinations

from matplotlib.backend_bases import RendererBase
from matplotlib.text import Text


def assert_readable(figure, monkeypatch):
    """Each panel is named on its axes and has a line and points; no text, tick labels and legends
    included, covers another or is cut off; what is drawn lies within the axes."""
    assert figure.axes
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_title()
        assert axes.lines
        assert axes.containers
        assert_points_inside(axes)
    assert figure.axes[0].get_ylabel()
    assert_no_text_covers_another(figure, texts_of(figure, monkeypatch))


def texts_of(figure, monkeypatch):
    """All texts that are drawn, not those that matplotlib keeps in store."""
    drawn, draw = [], Text.draw

    def noted(text, renderer: RendererBase, *args, **kwargs):
        drawn.append(text)
        return draw(text, renderer, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", noted)
        figure.draw_without_rendering()
    return [text for text in dict.fromkeys(drawn) if text.get_visible() and text.get_text()]


def assert_no_text_covers_another(figure, texts):
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    for (one, box), (other, beside) in combinations(boxes, 2):
        assert not box.overlaps(beside), f"{one!r} covers {other!r}"
    for one, box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, f"{one!r} is cut off"
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, f"{one!r} is cut off"


def assert_points_inside(axes):
    (left, right), (bottom, top) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    for bars in axes.containers:
        for x, y in bars.lines[0].get_xydata():
            assert left <= x <= right, bars.get_label()
            assert bottom <= y <= top, bars.get_label()


def points_of(axes, along=1):
    """label -> [(x, y, down, up)] of points with bars along y, or along x (0)."""
    found = {}
    for bars in axes.containers:
        (stems,) = bars.lines[2]
        spans = [(low[along], high[along]) for low, high in stems.get_segments()]
        places = bars.lines[0].get_xydata().tolist()
        found[bars.get_label()] = [
            (*place, place[along] - low, high - place[along])
            for place, (low, high) in zip(places, spans, strict=True)
        ]
    return found


def line_of(axes, label):
    """x -> y of a named line."""
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return dict(line.get_xydata().tolist())
