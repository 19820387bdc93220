"""Laws of what is handed out. They need no built program."""

import base64
import csv
import hashlib
import io
import json
import pathlib
import struct
import tarfile
import tempfile
import tomllib
import unittest
import zipfile

import npm_packages
import pack
import registry_rules
import release
import wheels


def program(folder, needs_loader):
    """Writes the head of a program for Linux with one header, and returns its path."""
    head = b"\x7fELF\x02\x01\x01" + bytes(25) + struct.pack("<Q", 64) + bytes(14)
    head += struct.pack("<HH", 56, 1) + bytes(6)
    path = folder / "stile"
    path.write_bytes(head + struct.pack("<I", 3 if needs_loader else 1) + bytes(52))
    path.chmod(0o755)
    return path


class InAFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)


class Archives(InAFolder):
    def test_the_same_files_give_the_same_archive(self):
        files = [("b", 0o644, b"two"), ("a", 0o755, b"one")]
        for write in (release.write_tar, release.write_zip):
            first, second = self.folder / "first", self.folder / "second"
            write(first, files)
            write(second, list(files))
            self.assertEqual(first.read_bytes(), second.read_bytes())

    def test_a_program_that_needs_a_loader_is_no_static_one(self):
        self.assertTrue(release.needs_libraries(program(self.folder, needs_loader=True)))
        self.assertFalse(release.needs_libraries(program(self.folder, needs_loader=False)))


class Documents(unittest.TestCase):
    def test_no_link_leads_to_a_file_that_the_archive_lacks(self):
        texts = {path: release.document(path, pack.BESIDE) for path in pack.DOCUMENTS}
        for path, text in texts.items():
            links = [link.partition("#")[0] for link in release.LINK.findall(text)]
            self.assertTrue(links or path == "docs/connect.md")
            for link in filter(None, links):
                is_there = link in pack.BESIDE.values()
                self.assertTrue(is_there or link.startswith("https://"), f"{path}: {link}")
        self.assertIn("](connect.md)", texts["README.md"])
        self.assertIn(f"]({release.source('docs/records.md')}#keep-it)", texts["docs/install.md"])

    def test_every_whole_address_is_of_a_file_of_the_source(self):
        begin = release.source("")
        for path in pack.DOCUMENTS:
            for link in release.LINK.findall(release.document(path, pack.BESIDE)):
                if link.startswith(begin):
                    file = link.removeprefix(begin).partition("#")[0]
                    self.assertTrue((release.ROOT / file).exists(), f"{path}: {link}")


class Wheels(InAFolder):
    def setUp(self):
        super().setUp()
        target, licences = release.RELEASED[0], pack.OWN_LICENCES
        path = wheels.write(program(self.folder, False), target, licences, self.folder, "1.2.3")
        self.name, self.wheel = path.name, zipfile.ZipFile(path)
        self.addCleanup(self.wheel.close)

    def test_a_static_program_has_the_tags_of_both_c_libraries(self):
        tag = "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"
        self.assertEqual(self.name, f"stile_mcp-1.2.3-py3-none-{tag}.whl")
        text = self.wheel.read("stile_mcp-1.2.3.dist-info/WHEEL").decode()
        self.assertEqual(text.count("Tag: py3-none-"), 3)

    def test_the_record_has_the_checksum_of_each_file(self):
        record = self.wheel.read("stile_mcp-1.2.3.dist-info/RECORD").decode()
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(record))}
        self.assertEqual(set(rows), set(self.wheel.namelist()))
        for name, (digest, size) in rows.items():
            if digest:
                content = self.wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
                self.assertEqual(digest, "sha256=" + expected.rstrip("="))
                self.assertEqual(size, str(len(content)))

    def test_the_scripts_can_be_run(self):
        scripts = [it for it in self.wheel.infolist() if ".data/scripts/" in it.filename]
        self.assertEqual([it.filename.rpartition("/")[2] for it in scripts], ["stile", "stile-mcp"])
        for script in scripts:
            self.assertEqual((script.external_attr >> 16) & 0o111, 0o111)

    def test_the_registry_finds_its_line(self):
        text = self.wheel.read("stile_mcp-1.2.3.dist-info/METADATA").decode()
        self.assertIn(f"\nmcp-name: {release.SERVER_NAME}\n", text)
        self.assertNotIn("@", text.partition("\n\n")[2].replace("@latest", ""))


class NpmPackages(InAFolder):
    def manifest(self, path):
        with tarfile.open(path) as archive:
            return json.load(archive.extractfile("package/package.json")), archive.getnames()

    def test_the_main_package_names_one_for_each_machine_and_runs_no_script(self):
        written = npm_packages.write_main(pack.OWN_LICENCES, self.folder, "1.2.3")
        manifest, names = self.manifest(written)
        self.assertEqual(manifest["mcpName"], release.SERVER_NAME)
        expected = {"stile-mcp-linux-x64": "1.2.3", "stile-mcp-linux-arm64": "1.2.3"}
        self.assertEqual(manifest["optionalDependencies"], expected)
        self.assertNotIn("scripts", manifest)
        self.assertIn("package/stile.js", names)

    def test_a_package_with_a_program_says_for_which_machine(self):
        for target in release.RELEASED:
            written = npm_packages.write_platform(
                program(self.folder, False), target, pack.OWN_LICENCES, self.folder, "1.2.3"
            )
            manifest, names = self.manifest(written)
            self.assertEqual((manifest["os"], manifest["cpu"]), (["linux"], [target.npm_cpu]))
            self.assertNotIn("libc", manifest)
            self.assertIn("package/bin/stile", names)


class Windows(InAFolder):
    def setUp(self):
        super().setUp()
        self.target = release.target("x86_64-pc-windows-gnu")
        self.program = self.folder / "stile.exe"
        self.program.write_bytes(b"MZ a program for Windows")

    def test_its_program_has_the_ending_in_every_package(self):
        given = (self.program, self.target, pack.OWN_LICENCES, self.folder, "1.2.3")
        with tarfile.open(npm_packages.write_platform(*given)) as archive:
            manifest = json.load(archive.extractfile("package/package.json"))
            self.assertIn("package/bin/stile.exe", archive.getnames())
        self.assertEqual((manifest["os"], manifest["cpu"]), (["win32"], ["x64"]))
        wheel = wheels.write(*given)
        self.assertTrue(wheel.name.endswith("-py3-none-win_amd64.whl"))
        scripts = "stile_mcp-1.2.3.data/scripts/"
        names = zipfile.ZipFile(wheel).namelist()
        self.assertEqual(
            [name for name in names if name.startswith(scripts)],
            [f"{scripts}stile.exe", f"{scripts}stile-mcp.cmd"],
        )

    def test_its_bundle_names_the_program(self):
        for name in ("LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENCES.txt", "stile.png"):
            (self.folder / name).write_bytes(b"x")
        bundle = self.folder / "stile.mcpb"
        pack.write_bundle(self.folder, self.target, bundle)
        with zipfile.ZipFile(bundle) as files:
            self.assertIn("server/stile.exe", files.namelist())
            server = json.loads(files.read("manifest.json"))["server"]
        self.assertEqual(server["entry_point"], "server/stile.exe")
        self.assertEqual(server["mcp_config"]["command"], "${__dirname}/server/stile.exe")

    def test_winget_alone_has_a_recipe_and_it_is_filled_in(self):
        archive = self.folder / "stile-1.2.3-x86_64-pc-windows-gnu.zip"
        archive.write_bytes(b"an archive")
        pack.write_recipes(archive, self.target, self.folder / "recipes")
        self.assertEqual([it.name for it in (self.folder / "recipes").iterdir()], ["winget.yaml"])
        text = (self.folder / "recipes/winget.yaml").read_text(encoding="utf-8")
        self.assertNotIn("@", text)
        self.assertIn(release.sha256(archive), text)


class Recipes(InAFolder):
    def test_a_recipe_is_for_the_machine_of_its_program(self):
        for triple, arch in [("x86_64-unknown-linux-musl", "x86_64"), ("aarch64-unknown-linux-musl", "arm64")]:
            target = next(target for target in release.RELEASED if target.triple == triple)
            archive = self.folder / f"stile-1.2.3-{triple}.tar.gz"
            archive.write_bytes(b"an archive")
            pack.write_recipes(archive, target, self.folder / triple)
            formula = (self.folder / triple / "stile.rb").read_text(encoding="utf-8")
            self.assertIn(f"depends_on arch: :{arch}\n", formula)
            described = formula.split('desc "')[1].split('"')[0]
            self.assertTrue(len(described) <= 80 and not described.endswith("."), described)
            spec = (self.folder / triple / "stile.spec").read_text(encoding="utf-8")
            self.assertIn(f"ExclusiveArch: {triple.partition('-')[0]}\n", spec)
            self.assertNotIn("@", formula)


class Registry(InAFolder):
    def setUp(self):
        super().setUp()
        bundle = self.folder / "stile-0.1.0-x86_64-unknown-linux-musl.mcpb"
        bundle.write_bytes(b"a bundle")
        self.server = pack.description([bundle])

    def test_our_description_keeps_the_rules(self):
        self.assertEqual(registry_rules.violations(self.server), [])
        kinds = [package["registryType"] for package in self.server["packages"]]
        self.assertEqual(kinds, ["npm", "pypi", "mcpb"])

    def test_each_rule_is_enforced(self):
        def spoiled(change):
            server = json.loads(json.dumps(self.server))
            change(server, *server["packages"])
            return registry_rules.violations(server)

        for change in [
            lambda server, *_: server.update(name="stile"),
            lambda server, *_: server.update(name="a/b/c"),
            lambda server, *_: server.update(description="x" * 101),
            lambda server, *_: server.update(title=""),
            lambda server, *_: server.update(version="^1.2.3"),
            lambda server, *_: server.update(version="1.x"),
            lambda server, *_: server.update(extra=1),
            lambda server, *_: server.update({"$schema": "https://example.org"}),
            lambda _, npm, *__: npm.update(version="latest"),
            lambda _, npm, *__: npm.pop("version"),
            lambda _, npm, *__: npm.pop("transport"),
            lambda _, npm, *__: npm.pop("identifier"),
            lambda _, npm, *__: npm.update(registryBaseUrl="https://example.org"),
            lambda _, npm, *__: npm["packageArguments"][0].pop("value"),
            lambda _, npm, *__: npm["packageArguments"][1].update(format="folder"),
            lambda _, npm, *__: npm.update(runtimeArguments=[]) or npm.pop("runtimeHint"),
            lambda _, __, pypi, ___: pypi.update(registryType="wheel"),
            lambda *packages: packages[3].pop("fileSha256"),
            lambda *packages: packages[3].update(fileSha256="A" * 64),
            lambda *packages: packages[3].update(identifier="http://example.org/stile.mcpb"),
        ]:
            self.assertEqual(len(spoiled(change)), 1)

    def test_an_example_namespace_cannot_be_published(self):
        if release.IS_EXAMPLE:
            self.assertTrue(registry_rules.hindrances(self.server))


class OnePlace(unittest.TestCase):
    def test_cargo_binstall_looks_where_a_release_is(self):
        with open(release.ROOT / "crates/server/Cargo.toml", "rb") as file:
            metadata = tomllib.load(file)["package"]["metadata"]["binstall"]
        address = metadata["pkg-url"].replace("{ version }", "1.2.3").replace("{ target }", "T")
        self.assertEqual(address, release.download("stile-1.2.3-T.tar.gz", "1.2.3"))

    def test_every_template_is_filled_in(self):
        for name in ("npm", "pypi"):
            text = release.read_me(name)
            self.assertNotIn("@RUN@", text)
            self.assertNotIn("@INSTALL@", text)
            self.assertNotIn("@SERVER_NAME@", text)


if __name__ == "__main__":
    unittest.main()
