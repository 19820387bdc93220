"""Writes the table of docs/clients.md from results.json, and holds that the two agree."""

import json

from story import STEPS

BEGIN = "<!-- The table: made by `just clients` from clients/results.json, and not by hand. -->"
END = "<!-- The end of the table. -->"
MARKS = {"ok": "ok", "anew": "anew", "fails": "**fails**", "none": "–"}

# What some cells saw, in words: what it holds, and what the page says. results.json keeps what was seen.
WORDS = (
    ("mcp_stile_text_read", "its call was refused: it renews its token twice at once, and the first use of either of the "
     "two ends the other one's access tokens"),
    ("/mcp list does not show the tools", "it showed no tools: what it had renewed had ended before"),
    ("the terminal does not show", "it did not ask the person to sign in again: what it had renewed had ended before"),
    ("a field for path did not come", "its page shows a tool without fields, since its own program did not come back "
     "after the server was killed"),
    ("NoneType", "its page did not lead to the page of consent again, for the same reason"),
    ("the picture came as None", "the picture reached the model as nothing"),
)


def worded(note):
    """Why a cell is no `ok`, in words."""
    return next((words for seen, words in WORDS if seen in note), note)


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
        number = notes.setdefault(worded(found["note"]), len(notes) + 1)
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
