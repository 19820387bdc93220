"""Unpacks a bundle into a folder as its clients do, with the rights of the files."""

import os
import sys
import zipfile

bundle, folder = sys.argv[1:]
with zipfile.ZipFile(bundle) as archive:
    for entry in archive.infolist():
        path = archive.extract(entry, folder)
        os.chmod(path, (entry.external_attr >> 16) & 0o777)
