"""Line charts as SVG texts, so that no other library is needed."""

import html

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 32, 44
INKS = ("#4285c8", "#d9822b", "#3f9b5c", "#8e5ea2", "#c44e52", "#7f7f7f")


class Svg(str):
    """An SVG text that a notebook shows as the picture."""

    def _repr_svg_(self):
        return str(self)


def _ticks(low, high):
    return [low + (high - low) * i / 4 for i in range(5)]


def _text(x, y, anchor, content, size=11):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#444444" '
            f'font-family="sans-serif">{html.escape(content)}</text>')


def lines(curves, title="", x="", y=""):
    """`curves` are lists of (x, y) by name."""
    points = [point for curve in curves.values() for point in curve]
    if not points:
        points = [(0, 0)]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    low_x, high_x, low_y, high_y = min(xs), max(xs), min(ys), max(ys)
    at_x = lambda v: LEFT + (v - low_x) / ((high_x - low_x) or 1) * (WIDTH - LEFT - RIGHT)
    at_y = lambda v: HEIGHT - BOTTOM - (v - low_y) / ((high_y - low_y) or 1) * (HEIGHT - TOP - BOTTOM)
    body = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', _text(LEFT, 20, "start", title, 13)]
    for value in _ticks(low_y, high_y):
        body.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y(value):.1f}" y2="{at_y(value):.1f}" '
                    'stroke="#e4e4e4"/>')
        body.append(_text(LEFT - 6, at_y(value) + 4, "end", f"{value:.4g}"))
    for value in _ticks(low_x, high_x):
        body.append(_text(at_x(value), HEIGHT - BOTTOM + 16, "middle", f"{value:.4g}"))
    body += [_text((LEFT + WIDTH) / 2, HEIGHT - 8, "middle", x), _text(LEFT - 6, TOP - 4, "end", y)]
    for number, (name, curve) in enumerate(curves.items()):
        ink = INKS[number % len(INKS)]
        path = " ".join(f"{at_x(a):.1f},{at_y(b):.1f}" for a, b in curve)
        body.append(f'<polyline points="{path}" fill="none" stroke="{ink}" stroke-width="2"/>')
        if len(curves) > 1:
            body.append(f'<rect x="{WIDTH - RIGHT - 120}" y="{TOP + 16 * number}" width="10" height="10" fill="{ink}"/>')
            body.append(_text(WIDTH - RIGHT - 106, TOP + 9 + 16 * number, "start", name))
    return Svg(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
               f'viewBox="0 0 {WIDTH} {HEIGHT}">' + "".join(body) + "</svg>")
