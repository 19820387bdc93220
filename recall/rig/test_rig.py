"""The arithmetic of the rig, its questions and its unpacking: `python3 -m unittest discover recall/rig`."""

import collections
import datetime
import io
import json
import math
import sys
import tarfile
import unittest
from pathlib import Path, PurePosixPath

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import collect
import rank
import server
import table

HERE = Path(__file__).resolve().parent.parent


class PlainRanking(unittest.TestCase):
    def test_a_score_is_what_the_formula_gives_by_hand(self):
        ranking = rank.PlainRanking({"a.md": "Fern fern moss", "b.md": "moss"})
        rarity = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
        norm = 1.2 * (0.25 + 0.75 * 3 / 2)
        self.assertAlmostEqual(ranking.score("a.md", ["fern"]), rarity * 2 * 2.2 / (2 + norm))

    def test_any_of_the_words_counts_and_a_file_with_none_is_not_found(self):
        ranking = rank.PlainRanking({"a.md": "golf", "b.md": "Susan", "c.md": "rain"})
        self.assertEqual(ranking.best("Susan golf", 10), ["a.md", "b.md"])

    def test_a_shorter_file_comes_before_a_longer_one(self):
        ranking = rank.PlainRanking({"a.md": "fern " + "moss " * 50, "b.md": "fern moss"})
        self.assertEqual(ranking.best("fern", 1), ["b.md"])

    def test_words_are_folded_to_lower_case_and_to_nothing_else(self):
        self.assertEqual(rank.words("Über l'Étape-2"), ["über", "l", "étape", "2"])

    def test_no_files_give_no_answer(self):
        self.assertEqual(rank.PlainRanking({}).best("fern", 10), [])


class Counts(unittest.TestCase):
    def test_a_place_is_of_the_first_right_path(self):
        self.assertEqual(rank.place(["x", "b", "a"], ("a", "b")), 2)
        self.assertIsNone(rank.place(["x"], ("a",)))

    def test_the_sixth_place_is_not_in_the_first_five(self):
        self.assertEqual(rank.tally([1, 5, 6, None]), (1, 2, 4))

    def test_a_target_is_missed_by_one_and_met_exactly(self):
        met = {kind: (*wanted, 12) for kind, wanted in rank.TARGETS.items()}
        self.assertEqual(rank.missed(met), [])
        self.assertEqual(rank.missed({**met, "b": (9, 11, 12)}), ["b: right first 9 of 12, and 10 are wanted"])
        self.assertEqual(len(rank.missed({**met, "d": (1, 2, 12)})), 2)

    def test_the_figures_add_up_and_become_a_table(self):
        question = rank.Question("a1", "small", "en", "fern", ("a.md",), "author")
        run = {"collection": {"name": "small", "package": "p", "version": "1"}, "files": 2, "bytes": 9,
               "asked": [question], "answers": {"plain": {"a1": server.Answer()}}}
        run["answers"]["plain"]["a1"].found = ["b.md", "a.md"]
        figures = table.figures([run], None, datetime.date(2026, 11, 26))
        self.assertEqual(figures["places"], {"a1": {"plain": 2}})
        self.assertEqual(figures["rankings"]["plain"]["kinds"]["a"], {"first": 0, "first_five": 1, "asked": 1})
        self.assertIn("| all | 1 | 0 | 1 |", table.rendered(figures))


class Answers(unittest.TestCase):
    def test_an_answer_is_read_from_json_and_from_a_stream(self):
        message = {"jsonrpc": "2.0", "id": 3, "result": {}}
        stream = f": hello\n\nevent: message\ndata: {json.dumps(message)}\n\n"
        for body in (json.dumps(message), stream):
            self.assertEqual(server.message_of(body.encode(), 3), message)
        with self.assertRaises(server.Failed):
            server.message_of(stream.encode(), 4)

    def test_a_question_is_asked_on_until_finished_and_the_last_answer_counts(self):
        pages = [{"results": [{"path": "/a.md"}], "not_finished": True, "next_cursor": "next"},
                 {"results": [{"path": "/b.md"}], "next_cursor": "the second page"}]
        asked = []

        class Scripted(server.Server):
            def __init__(self):
                pass

            def request(self, method, parameters):
                asked.append(parameters["arguments"])
                text = "über"
                return {"content": [{"text": text}], "structuredContent": pages[len(asked) - 1]}, 100

        answer = Scripted().ask("fern", 10)
        self.assertEqual(asked, [{"q": "fern", "limit": 10}, {"q": "fern", "limit": 10, "cursor": "next"}])
        self.assertEqual((answer.found, answer.calls), (["b.md"], 2))
        self.assertEqual((answer.sent_bytes, answer.text_bytes), (200, 10))

    def test_an_answer_says_by_name_or_as_a_reason_that_it_is_not_finished(self):
        self.assertTrue(server.is_unfinished({"not_finished": True}))
        self.assertTrue(server.is_unfinished({"left_out": {"not_finished": 7}}))
        self.assertTrue(server.is_unfinished({"left_out": [{"reason": "not_finished", "files": 7}]}))
        self.assertFalse(server.is_unfinished({"left_out": {"not_finished": 0, "not_text": 3}, "results": []}))
        self.assertFalse(server.is_unfinished({"results": [{"passages": ["not_finished"]}],
                                               "nowhere": ["not_finished"]}))


class Questions(unittest.TestCase):
    def setUp(self):
        self.asked = rank.questions(HERE)

    def test_there_are_twelve_of_each_kind_and_a_third_is_not_in_english(self):
        kinds = collections.Counter(question.kind for question in self.asked)
        self.assertEqual(kinds, {kind: 12 for kind in rank.KINDS})
        foreign = sum(question.language != "en" for question in self.asked)
        self.assertGreaterEqual(3 * foreign, len(self.asked))

    def test_each_has_its_own_key_and_text_a_collection_and_a_right_note(self):
        names = {collection["name"] for collection in collect.pinned(HERE)}
        self.assertGreaterEqual(len(names), 3)
        self.assertEqual({question.collection for question in self.asked}, names)
        for part in ("key", "text"):
            self.assertEqual(len({getattr(question, part) for question in self.asked}), len(self.asked))
        for question in self.asked:
            self.assertTrue(all(path.endswith(".md") for path in question.right), question.key)
            self.assertIn(question.language, rank.LANGUAGES)
            self.assertIn(question.checked, rank.CHECKS)


class Unpacking(unittest.TestCase):
    def archive(self, files):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            for name, text in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))
        return content.getvalue()

    def test_only_the_markdown_below_the_named_folder_is_taken(self):
        content = self.archive({"package/docs/a.md": b"a", "package/docs/b.js": b"b", "package/c.md": b"c"})
        pages = list(collect.pages_of({"inside": "docs"}, content))
        self.assertEqual(pages, [(PurePosixPath("a.md"), b"a", 0)])

    def test_no_page_leads_out_of_the_folder(self):
        content = self.archive({"package/docs/../../../x.md": b"x", "package/docs/y.md": b"y"})
        self.assertEqual([str(path) for path, *_ in collect.pages_of({"inside": "docs"}, content)], ["y.md"])
        docs = {"docs": {"de-DE": {"/docs/a": {"markdown": "Ä"}}}}
        content = self.archive({"package/index.json": json.dumps(docs).encode()})
        pages = list(collect.pages_of({"json": "index.json", "languages": {"de": "de-DE"}}, content))
        self.assertEqual(pages, [(PurePosixPath("de/a.md"), "Ä".encode(), 0)])

    def test_each_collection_is_pinned_by_name_version_checksum_and_licence(self):
        for collection in collect.pinned(HERE):
            self.assertIn(collection["registry"], collect.DOWNLOADS)
            self.assertEqual(len(collection["sha256"]), 64)
            self.assertTrue(collection["package"] and collection["version"] and collection["licence"])


if __name__ == "__main__":
    unittest.main()
