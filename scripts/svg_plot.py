# SPDX-License-Identifier: Apache-2.0
"""Draws lines over two axes as an SVG file, for the benchmarks of this folder."""
import math
import pathlib

COLOURS = ["#b22222", "#e9967a", "#1f4e9c", "#7b4fb0", "#5aa0e0"]
WIDTH, HEIGHT = 720, 420
LEFT, BOTTOM, RIGHT, TOP = 70, 50, 170, 20


def line_plot(file, series, x_ticks, y_ticks, caption, x_scale=math.log10):
    """series: {name: [(x, y), ...]}, with an optional third value that marks a point. Ticks: [(value, label), ...] from the
    lowest to the highest value of the axis; the y axis is logarithmic, and cuts off what is outside of it."""
    def place(x, y):
        def share(value, ticks, scale):
            low, high = scale(ticks[0][0]), scale(ticks[-1][0])
            return (scale(value) - low) / (high - low)
        down = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share(y, y_ticks, math.log10)
        return LEFT + (WIDTH - LEFT - RIGHT) * share(x, x_ticks, x_scale), min(max(down, 0), HEIGHT)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             'font-family="sans-serif" font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for value, label in y_ticks:
        x, y = place(x_ticks[0][0], value)
        parts.append(f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{WIDTH - RIGHT}" y2="{y:.0f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{label}</text>')
    for value, label in x_ticks:
        if label:
            x, _ = place(value, y_ticks[0][0])
            parts.append(f'<text x="{x:.0f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{label}</text>')
    for index, ((name, points), colour) in enumerate(zip(series.items(), COLOURS)):
        places = [(*place(*point[:2]), point[2:] == (True,)) for point in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if marked else 3}" fill="{colour}"/>' for x, y, marked in places]
        y = 40 + 20 * index
        parts.append(f'<rect x="{WIDTH - RIGHT + 15}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 30}" y="{y}">{name}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 10}" text-anchor="middle">{caption}</text></svg>')
    pathlib.Path(file).write_text("\n".join(parts) + "\n")


def time_ticks(low, high):
    """Powers of ten of nanoseconds, 10**low to 10**high."""
    units = [(9, "s"), (6, "ms"), (3, "us"), (0, "ns")]

    def label(power):
        exponent, unit = next((exponent, unit) for exponent, unit in units if power >= exponent)
        return f"{10**(power - exponent)} {unit}"
    return [(10**power, label(power)) for power in range(low, high + 1)]
