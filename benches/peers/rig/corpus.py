"""The one corpus of a run, made from a fixed seed."""

import random
from dataclasses import dataclass, field
from pathlib import Path

SYLLABLES = ["ba", "de", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu"]
NEEDLE = "zanzibar crate"


@dataclass
class Size:
    """How large the corpus is."""

    notes: int
    entries: int
    large_lines: int


FULL = Size(notes=5_000, entries=10_000, large_lines=800_000)
SMALL = Size(notes=50, entries=500, large_lines=8_000)


@dataclass
class Corpus:
    """A folder, and what the right answers about it are."""

    root: Path
    small: str = ""
    medium: str = ""
    entries: set = field(default_factory=set)
    window: list = field(default_factory=list)
    first_line: int = 0
    with_needle: set = field(default_factory=set)


def words(chance, count):
    made = []
    for at in range(count):
        word = "".join(chance.choice(SYLLABLES) for _ in range(chance.randint(1, 3)))
        made.append(word + (".\n" if at % 12 == 11 else " "))
    return "".join(made)


def make(root, size):
    """Makes the files: notes, a file of 100 KB, one of 1 MB, one of 50 MB, and a folder of many entries."""
    chance = random.Random(7)
    made = Corpus(root)
    notes, many = root / "notes", root / "many"
    notes.mkdir(parents=True)
    many.mkdir()
    needles = set(chance.sample(range(size.notes), 7))
    for number in range(size.notes):
        folder = notes / f"{number // 100:03}"
        folder.mkdir(exist_ok=True)
        text = f"# Note {number}\n\n{words(chance, 220)}"
        if number in needles:
            text += f"\nThe {NEEDLE} left on Friday.\n"
            made.with_needle.add(f"notes/{number // 100:03}/{number}.md")
        (folder / f"{number}.md").write_text(text)
    for number in range(size.entries):
        name = f"entry-{number:05}.md"
        (many / name).write_text("x\n")
        made.entries.add(name)
    made.small = "# Small\n\nOne line.\n"
    (root / "small.md").write_text(made.small)
    made.medium = words(chance, 20_000)[:100_000] + "\n"
    (root / "medium.md").write_text(made.medium)
    (root / "megabyte.md").write_text("the one line 0\n" + words(chance, 200_000)[:1_000_000] + "\n")
    with (root / "large.md").open("w") as large:
        for number in range(1, size.large_lines + 1):
            large.write(f"line {number:08} of the large file, whose words do not matter\n")
    made.first_line = size.large_lines // 2
    made.window = [
        f"line {number:08} of the large file, whose words do not matter"
        for number in range(made.first_line, made.first_line + 20)
    ]
    return made
