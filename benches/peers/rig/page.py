"""The table and the plots of docs/performance.md, from what was measured."""

import datetime
import platform
import statistics
import subprocess

BEGIN, END = "<!-- Begins: made by benches/peers/run --write. -->", "<!-- Ends. -->"
MORE_IS_BETTER = {"a second"}


def result(figures, driven, size, top):
    """All that a reader needs to rerun and to judge the figures."""
    lines = {}
    for title, line in figures.items():
        medians = {}
        for peer, rounds in line["peers"].items():
            known = [figure for figure in rounds if figure is not None]
            medians[peer] = statistics.median(known) if len(known) == len(rounds) and known else None
        lines[title] = {"unit": line["unit"], "medians": medians, "rounds": line["peers"]}
    return {
        "date": datetime.date.today().isoformat(),
        "commit": subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"], cwd=top, capture_output=True, text=True, check=True
        ).stdout.strip(),
        "machine": machine(),
        "corpus": vars(size),
        "peers": {peer.name: peer.version() for peer in driven},
        "lines": lines,
    }


def machine():
    processors = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    memory = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    load = open("/proc/loadavg").read().split()[1]
    return f"{platform.system()}, {len(processors)} × {processors[0] if processors else '?'}, " \
        f"{memory // 2**20} GB, load {load} in the five minutes before the end"


def shown(figure, unit):
    if figure is None:
        return "–"
    if unit in ("bytes", "writes", "a second"):
        return f"{figure:,.0f}"
    return f"{figure:.2f}" if figure < 10 else f"{figure:,.1f}" if figure < 100 else f"{figure:,.0f}"


def table(made):
    names = list(made["peers"])
    rows = [
        "| line | unit | " + " | ".join(f"{name} {made['peers'][name]}" for name in names) + " |",
        "|---|---|" + "---:|" * len(names),
    ]
    for title, line in made["lines"].items():
        figures = [shown(line["medians"][name], line["unit"]) for name in names]
        rows.append(f"| {title} | {line['unit']} | " + " | ".join(figures) + " |")
    said = f"{made['date']}, commit {made['commit']}; {made['machine']}. Medians of " \
        f"{max(len(rounds) for line in made['lines'].values() for rounds in line['rounds'].values())} rounds."
    return "\n".join(rows) + "\n\n" + said


def write(made, top):
    page = top / "docs/performance.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    pictures = []
    for title in ("start to tools/list", "read of 100 KB", "text in 5,000 notes"):
        if title in made["lines"]:
            name = "peers-" + "".join(c if c.isalnum() else "-" for c in title).strip("-") + ".svg"
            (top / "docs/pictures" / name).write_text(plot(title, made["lines"][title]))
            pictures.append(f"![{title}](pictures/{name})")
    page.write_text(before + BEGIN + "\n\n" + table(made) + "\n\n" + "\n".join(pictures) + "\n\n" + END + after)


def plot(title, line):
    """Bars from nought, one for each peer."""
    known = {name: figure for name, figure in line["medians"].items() if figure is not None}
    most = max(known.values(), default=1) or 1
    height = 40 + 26 * len(known)
    rows = []
    for at, (name, figure) in enumerate(known.items()):
        y, width = 40 + 26 * at, max(1, 380 * figure / most)
        colour = "#2f6f4f" if name.startswith("stile") else "#9aa5ab"
        rows.append(
            f'<text x="170" y="{y + 14}" text-anchor="end">{name}</text>'
            f'<rect x="180" y="{y}" width="{width:.0f}" height="18" fill="{colour}"/>'
            f'<text x="{188 + width:.0f}" y="{y + 14}">{shown(figure, line["unit"])}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {height}" font-family="sans-serif" font-size="13">'
        f'<rect width="660" height="{height}" fill="#fff"/>'
        f'<text x="8" y="22" font-weight="bold">{title}, {line["unit"]}</text>' + "".join(rows) + "</svg>\n"
    )
