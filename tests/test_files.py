"""Text in compressed files, and every way that fails."""

from __future__ import annotations

import gzip
import json

import pytest

from moccasin_mzn.base import files
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import load_json, replace_file

FEW = 1000


def test_text_in_a_compressed_file_is_the_same_bytes_every_time(tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        replace_file(tmp_path / name, '["\u00e9", 1]\n')
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()).decode() == '["\u00e9", 1]\n'
    assert load_json(tmp_path / "a.json.gz") == ["\u00e9", 1]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-5], "cut short"), (lambda data: data[:3], "cut short"), (lambda data: b"", "cut short"),
        (lambda data: b"[1]", "not compressed"), (lambda data: data[:-6] + b"\xff" + data[-5:], "not compressed"),
        (lambda data: gzip.compress(b" " * (FEW + 1)), "more than 1000 bytes, uncompressed"),
    ],
)  # fmt: skip
def test_wrongly_compressed_files_are_refused_in_one_line(tmp_path, monkeypatch, damage, message):
    monkeypatch.setattr(files, "SIZE_LIMIT", FEW)
    path = tmp_path / "a.json.gz"
    replace_file(path, json.dumps(list(range(50))))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message) as error:
        load_json(path)
    assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)
