"""Draws attempts over time as SVG: one row each, a ring at the planned time, a dot at the actual time.

The axis starts at 0 and is logarithmic from one minute on. Times are in seconds.
"""

import math

WIDTH, LEFT, RIGHT, TOP, ROW = 880, 64, 210, 84, 34
MINUTE, HOUR, DAY = 60, 3600, 86_400
TICKS_S = [0, MINUTE, 10 * MINUTE, HOUR, 3 * HOUR, 10 * HOUR, DAY]
STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #24292f }
    .title { font-size: 17px; font-weight: 600 }
    .quiet { fill: #6e7781 }
    line { stroke: #d0d7de }
    .wait { stroke: #8c959f; stroke-width: 2 }
    circle { stroke-width: 2 }
    .planned { fill: none; stroke: #0969da }
    .failed { fill: #cf222e }
    .done { fill: #1a7f37 }
    .paper { fill: #ffffff }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .quiet { fill: #8d96a0 }
      line { stroke: #30363d }
      .wait { stroke: #6e7681 }
      .planned { stroke: #58a6ff }
      .failed { fill: #f85149 }
      .done { fill: #3fb950 }
      .paper { fill: #0d1117 }
    }"""


def span(seconds):
    """Formats a duration with its two largest units."""
    if seconds == 0:
        return "at once"
    left, words = round(seconds), []
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            words.append(f"{count}{unit}")
    return " ".join(words[:2]) or "0s"


def across(seconds):
    """The x position of a time."""
    width = WIDTH - LEFT - RIGHT
    return round(LEFT + width * math.log1p(seconds / MINUTE) / math.log1p(1.1 * DAY / MINUTE), 1)


def draw(attempts):
    """Draws a list of (planned_s, came_s, status), one per attempt."""
    bottom = TOP + ROW * len(attempts)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 56}" role="img">',
        f"  <title>{len(attempts)} attempts over time</title>",
        f"  <style>{STYLE}\n  </style>",
        f'  <rect class="paper" width="{WIDTH}" height="{bottom + 56}"/>',
        f'  <text class="title" x="{LEFT - 40}" y="32">{len(attempts)} attempts over a day</text>',
        *legend(LEFT - 34, 56),
        *axis(bottom),
    ]
    before = 0
    for row, attempt in enumerate(attempts):
        parts += attempt_row(row, before, *attempt)
        before = attempt[1]
    return "\n".join([*parts, "</svg>", ""])


def legend(x, y):
    for kind, words, at in (("planned", "planned", x), ("failed", "answered 500", x + 90), ("done", "answered 200", x + 220)):
        yield f'  <circle class="{kind}" cx="{at}" cy="{y - 4}" r="5"/>'
        yield f'  <text class="quiet" x="{at + 12}" y="{y}">{words}</text>'


def axis(bottom):
    for tick_s in TICKS_S:
        x = across(tick_s)
        yield f'  <line x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{bottom}"/>'
        yield f'  <text class="quiet" x="{x}" y="{bottom + 20}" text-anchor="middle">{span(tick_s)}</text>'
    middle = across(TICKS_S[-1]) / 2 + LEFT / 2
    yield f'  <text class="quiet" x="{middle}" y="{bottom + 44}" text-anchor="middle">since the push</text>'


def attempt_row(row, before_s, planned_s, came_s, status):
    y = TOP + ROW * row + ROW // 2
    kind = "done" if status < 300 else "failed"
    late = span(came_s - planned_s)
    yield f'  <text x="{LEFT - 40}" y="{y + 4}">{row + 1}</text>'
    yield f'  <line class="wait" x1="{across(before_s)}" y1="{y}" x2="{across(came_s)}" y2="{y}"/>'
    yield f'  <circle class="{kind}" cx="{across(came_s)}" cy="{y}" r="5"/>'
    yield f'  <circle class="planned" cx="{across(planned_s)}" cy="{y}" r="8"/>'
    yield f'  <text x="{WIDTH - RIGHT + 20}" y="{y + 4}">{span(planned_s)}<tspan class="quiet"> and {late}</tspan></text>'
