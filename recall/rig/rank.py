"""The arithmetic: a plain BM25, the place of the right note, and what a run is held to."""

import collections
import math
import re
import urllib.parse
from dataclasses import dataclass

K1 = 1.2
B = 0.75

KINDS = {
    "a": "words that stand in the note, not together",
    "b": "other forms, accents, compounds, slips",
    "c": "a paraphrase that shares a rare word",
    "d": "a topic with few shared words",
    "e": "a question with much chatter",
}

# How many of the twelve questions of a kind must find a right note first, and in the first five.
TARGETS = {"a": (12, 12), "b": (10, 11), "c": (11, 12), "d": (2, 3), "e": (11, 12)}

LANGUAGES = ("en", "de", "fr")

# Who has confirmed that the right notes are right: the author alone, or a second reader too.
CHECKS = ("author", "reader")


@dataclass(frozen=True)
class Question:
    """A line of questions.tsv. The first letter of `key` is the kind; `right` has paths.

    The file separates paths by spaces, and writes a space of a path as `%20`.
    """

    key: str
    collection: str
    language: str
    text: str
    right: tuple
    checked: str

    @property
    def kind(self):
        return self.key[0]


def questions(here):
    lines = (here / "questions.tsv").read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines[1:]:
        key, collection, language, text, right, checked = line.split("\t")
        paths = tuple(urllib.parse.unquote(path) for path in right.split(" "))
        found.append(Question(key, collection, language, text, paths, checked))
    return found


def words(text):
    """Returns the words of a text in lower case. A letter with an accent is a letter of its own."""
    return re.findall(r"\w+", text.lower())


class PlainRanking:
    """BM25 over whole files: lower case, no stemmer, no names, no fields, no passages."""

    def __init__(self, texts):
        self.counts = {path: collections.Counter(words(text)) for path, text in texts.items()}
        self.lengths = {path: counts.total() for path, counts in self.counts.items()}
        self.mean_length = sum(self.lengths.values()) / max(1, len(self.lengths)) or 1
        self.files_with = collections.Counter(word for counts in self.counts.values() for word in counts)

    def rarity(self, word):
        """Returns the inverse document frequency of a word, which is never negative."""
        having = self.files_with[word]
        return math.log(1 + (len(self.counts) - having + 0.5) / (having + 0.5))

    def score(self, path, asked):
        counts, norm = self.counts[path], 1 - B + B * self.lengths[path] / self.mean_length
        return sum(self.rarity(word) * counts[word] * (K1 + 1) / (counts[word] + K1 * norm)
                   for word in asked if counts[word])

    def best(self, question, limit):
        """Returns the paths of the best files, best first; equal ones in the order of paths."""
        asked = sorted(set(words(question)))
        scores = {path: self.score(path, asked) for path in self.counts}
        found = [path for path in scores if scores[path] > 0]
        return sorted(found, key=lambda path: (-scores[path], path))[:limit]


def place(found, right):
    """Returns the place of the first right path, counted from 1, or `None`."""
    return next((number for number, path in enumerate(found, 1) if path in right), None)


def tally(places):
    """Counts the places of one kind: right first, right in the first five, all."""
    known = [number for number in places if number]
    return sum(number == 1 for number in known), sum(number <= 5 for number in known), len(places)


def missed(tallies):
    """Returns a sentence for each target that the tallies by kind miss."""
    found = []
    for kind, (first, five) in TARGETS.items():
        got_first, got_five, asked = tallies[kind]
        if got_first < first:
            found.append(f"{kind}: right first {got_first} of {asked}, and {first} are wanted")
        if got_five < five:
            found.append(f"{kind}: right in the first five {got_five} of {asked}, and {five} are wanted")
    return found


def mean(numbers):
    return sum(numbers) / len(numbers) if numbers else 0
