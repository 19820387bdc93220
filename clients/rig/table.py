"""Writes the table of docs/clients.md from results.json, and holds that the two agree."""

import json

from story import STEPS

BEGIN = "<!-- The table: made by `just clients` from clients/results.json, and not by hand. -->"
END = "<!-- The end of the table. -->"
MARKS = {"ok": "ok", "anew": "anew", "fails": "**fails**", "none": "–"}


def results(here):
    path = here / "results.json"
    return json.loads(path.read_text()) if path.exists() else {}


def markdown(results, order):
    """The table, and below it why a cell is no `ok`."""
    notes = {}

    def cell(row, step):
        found = row["cells"].get(step)
        if found is None:
            return ""
        mark = MARKS[found["state"]]
        if found["state"] == "ok" or "note" not in found:
            return mark
        number = notes.setdefault(found["note"], len(notes) + 1)
        return f"{mark} [{number}]"

    lines = ["| client | version | date | " + " | ".join(STEPS.values()) + " |",
             "|---|---|---|" + "---|" * len(STEPS)]
    for key in order:
        if row := results.get(key):
            cells = " | ".join(cell(row, step) for step in STEPS)
            lines.append(f"| {row['name']} | {row['version']} | {row['date']} | {cells} |")
    lines.append("")
    for note, number in notes.items():
        safe = note.replace("<", "&lt;").replace("|", "\\|").replace("`", "'")
        lines += [f"{number}. {safe}" + ("" if safe.endswith((".", "!", "?")) else ".")]
    return "\n".join(lines)


def page_with(page, table):
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def write(here, results, order):
    """Writes results.json and the page."""
    kept = {key: results[key] for key in order if key in results}
    (here / "results.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    page = here.parent / "docs/clients.md"
    page.write_text(page_with(page.read_text(), markdown(kept, order)))


def agrees(here, order):
    """Whether the page shows what results.json holds."""
    page = (here.parent / "docs/clients.md").read_text()
    return page == page_with(page, markdown(results(here), order))
