"""Turns the answers of a run into figures, and the figures into a table for people."""

import platform

import rank

NAMES = {"plain": "plain BM25", "stile": "file.search"}


def places(runs, ranking):
    """Yields each question with the place of its right note, and its answer."""
    for run in runs:
        for question in run["asked"]:
            answer = run["answers"][ranking][question.key]
            yield question, rank.place(answer.found, question.right), answer


def rankings(runs):
    return [name for name in ("stile", "plain") if all(name in run["answers"] for run in runs)]


def tallies(runs, ranking):
    by_kind = {kind: [] for kind in rank.KINDS}
    for question, place, _ in places(runs, ranking):
        by_kind[question.kind].append(place)
    return {kind: rank.tally(found) for kind, found in by_kind.items()}


def figures(runs, version, today):
    """Returns what `--json` writes."""
    return {
        "date": today.isoformat(),
        "program": version,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "collections": [{
            "name": run["collection"]["name"], "package": run["collection"]["package"],
            "version": run["collection"]["version"], "files": run["files"], "bytes": run["bytes"],
            "milliseconds": {name: waits(run, name) for name in rankings(runs)},
        } for run in runs],
        "rankings": {name: {
            "kinds": {kind: {"first": first, "first_five": five, "asked": asked}
                      for kind, (first, five, asked) in tallies(runs, name).items()},
            "calls": sum(answer.calls for *_, answer in places(runs, name)),
            "mean_bytes_sent": round(rank.mean([answer.sent_bytes for *_, answer in places(runs, name)])),
            "mean_bytes_of_text": round(rank.mean([answer.text_bytes for *_, answer in places(runs, name)])),
        } for name in rankings(runs)},
        "places": {question.key: {name: rank.place(run["answers"][name][question.key].found, question.right)
                                  for name in rankings(runs)}
                   for run in runs for question in run["asked"]},
    }


def waits(run, ranking):
    """Returns the milliseconds of the first question and of the second."""
    answers = list(run["answers"][ranking].values())
    return [round(answer.seconds * 1000, 1) for answer in answers[:2]]


def rendered(figures):
    """Returns the tables as Markdown."""
    names = list(figures["rankings"])
    heads = [f"{NAMES[name]}: {what}" for name in names for what in ("first", "in five")]
    lines = [f"| kind | asked | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    totals = [0] * (1 + len(heads))
    for kind, what in rank.KINDS.items():
        rows = [figures["rankings"][name]["kinds"][kind] for name in names]
        numbers = [rows[0]["asked"], *(row[part] for row in rows for part in ("first", "first_five"))]
        totals = [total + number for total, number in zip(totals, numbers)]
        lines.append(f"| {kind}: {what} | {' | '.join(map(str, numbers))} |")
    lines += [f"| all | {' | '.join(map(str, totals))} |", ""]
    heads = [f"{NAMES[name]}: {what}" for name in names for what in ("first question", "second")]
    lines += [f"| collection | files | MB | {' | '.join(heads)} |", "|---|---|---|" + "---|" * len(heads)]
    for one in figures["collections"]:
        shown = [f"{wait:.0f} ms" for name in names for wait in one["milliseconds"][name]]
        lines.append(f"| {one['name']} | {one['files']} | {one['bytes'] / 1e6:.1f} | {' | '.join(shown)} |")
    lines.append("")
    if "stile" in names:
        row = figures["rankings"]["stile"]
        asked = sum(kind["asked"] for kind in row["kinds"].values())
        lines.append(f"{asked} questions took {row['calls']} calls. An answer has {row['mean_bytes_sent']} bytes "
                     f"as sent and {row['mean_bytes_of_text']} as text, in the mean.")
    lines.append(f"{figures['date']}, {figures['program'] or 'without a program'}, {figures['system']}.")
    return "\n".join(lines)


def misses(runs):
    """Returns a line for each question whose right note is not first, and what came first."""
    lines = []
    for name in rankings(runs):
        for question, place, answer in places(runs, name):
            if place != 1:
                first = answer.found[0] if answer.found else "nothing"
                lines.append(f"{NAMES[name]} {question.key} {question.collection}: place {place}, first is {first}")
    return "\n".join(lines)
