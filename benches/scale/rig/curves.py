"""The tables and the plots of docs/performance.md, from what was measured."""

import datetime
import json
import math
import platform
import subprocess

BEGIN, END = "<!-- Begins: made by benches/scale/run --write. -->", "<!-- Ends: benches/scale. -->"
COLOURS = ["#2f6f4f", "#b3541e", "#3b5b92", "#8a3b6f", "#6b6b2b", "#1e7f8c", "#a03030", "#555555",
           "#c79a00", "#00548a", "#c2185b", "#7a5c3e"]


def result(figures, sizes, curve, rounds, top):
    """All that a reader needs to rerun and to judge the figures."""
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=top, capture_output=True, text=True)
    return {
        "title": curve.TITLE, "counted": curve.COUNTED, "corpus": curve.CORPUS, "sizes": sizes, "most_rounds": rounds,
        "date": datetime.date.today().isoformat(), "commit": commit.stdout.strip(), "machine": machine(),
        "plots": getattr(curve, "PLOTS", []), "lines": figures,
    }


def machine():
    processors = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    memory = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    load = open("/proc/loadavg").read().split()[1]
    return f"{platform.system()}, {len(processors)} × {processors[0] if processors else '?'}, " \
        f"{memory // 2**20} GB, load {load} in the five minutes before the end"


def shown(figure):
    if figure is None:
        return "–"
    digits = 2 if abs(figure) < 10 else 1 if abs(figure) < 100 else 0
    return f"{figure:,.{digits}f}"


def table(made):
    sizes = [str(size) for size in made["sizes"]]
    heads = [f"{int(size):,}" for size in sizes]
    rows = [
        f"| {made['counted']} | unit | " + " | ".join(heads) + " |",
        "|---|---|" + "---:|" * len(sizes),
    ]
    for title, line in made["lines"].items():
        figures = [shown(line["medians"].get(size)) for size in sizes]
        rows.append(f"| {title} | {line['unit']} | " + " | ".join(figures) + " |")
    said = f"{made['date']}, commit {made['commit']}; {made['machine']}. Medians of {made['most_rounds']} rounds in turns."
    said += f" {made['note']}" if made.get("note") else ""
    return "\n".join(rows) + "\n\n" + said


def keep(file, name, made):
    known = json.loads(file.read_text()) if file.exists() else {}
    known[name] = made
    file.write_text(json.dumps(known, indent=1) + "\n")


def write(top, file):
    page = top / "docs/performance.md"
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    parts = []
    for name, made in json.loads(file.read_text()).items():
        picture = f"scale-{name}.svg"
        (top / "docs/pictures" / picture).write_text(plot(made))
        parts.append(
            f"### {made['title']}\n\n`benches/scale/run {name} --write`. {made['corpus']}\n\n{table(made)}\n\n"
            f"![{made['title']}](pictures/{picture})")
    page.write_text(before + BEGIN + "\n\n" + "\n\n".join(parts) + "\n\n" + END + after)


def plot(made):
    """A line for each row of one unit over the sizes, both axes by powers of ten."""
    unit = made["plots"][0] if made["plots"] else "ms"
    lines = {title: line["medians"] for title, line in made["lines"].items() if line["unit"] == unit}
    sizes = made["sizes"]
    values = [value for medians in lines.values() for value in medians.values() if value and value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    first, last = math.log10(max(1, sizes[0])), math.log10(sizes[-1])
    width, height, left, top = 420, 240, 60, 40

    def x(size):
        return left + width * (math.log10(max(1, size)) - first) / (last - first or 1)

    def y(value):
        return top + height * (high - math.log10(value)) / (high - low)

    parts = []
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(f'<line x1="{left}" y1="{at:.0f}" x2="{left + width}" y2="{at:.0f}" stroke="#ddd"/>'
                     f'<text x="{left - 6}" y="{at + 4:.0f}" text-anchor="end">{10**power:g}</text>')
    for size in sizes:
        parts.append(f'<text x="{x(size):.0f}" y="{top + height + 18}" text-anchor="middle">{size:,}</text>')
    for at, (title, medians) in enumerate(lines.items()):
        colour = "#9aa5ab" if title.startswith("floor") else COLOURS[at % len(COLOURS)]
        points = " ".join(f"{x(int(size)):.0f},{y(value):.0f}" for size, value in medians.items() if value and value > 0)
        name = title.replace("`", "").replace("&", "&amp;").replace("<", "&lt;")
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<rect x="{left}" y="{top + height + 32 + 18 * at}" width="12" height="12" fill="{colour}"/>'
                     f'<text x="{left + 18}" y="{top + height + 43 + 18 * at}">{name}</text>')
    tall = top + height + 50 + 18 * len(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 520 {tall}" font-family="sans-serif" font-size="12">'
        f'<rect width="520" height="{tall}" fill="#fff"/>'
        f'<text x="8" y="22" font-weight="bold">{made["title"]}, {unit}</text>' + "".join(parts) + "</svg>\n")
