"""JSON and TOML are read within limits, and limits are looked at before parsers are."""

from pathlib import Path
from typing import Any

import pytest

from affinerank.support import limits
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.text_files import read_json, read_text, read_toml

DEEP = limits.TEXT_DEPTH


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (
            b'{"a": [1, -2.5e3, null, true, "\\u00e9"]}',
            {"a": [1, -2500.0, None, True, "é"]},
        ),
        ('[["é", "\\\\\\"[["]]'.encode(), [["é", '\\"[[']]),
        (b'"\\ud83d\\ude00"', "😀"),
        (b"1" * limits.TEXT_DIGITS, int("1" * limits.TEXT_DIGITS)),
        (b'"' + b"[" * 10_000 + b'"', "[" * 10_000),
        (b"[" + b"[]," * 100 + b"{}]", [*[[]] * 100, {}]),
        (b"{}\r\n", {}),
    ],
)
def test_json_is_read_as_it_is(content: bytes, value: Any, tmp_path: Path) -> None:
    assert read_json(written(tmp_path, content)) == value


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Expecting value"),
        (b'{"a": 1', "Expecting"),
        (b"[" * 100_000, f"nested more than {DEEP} deep"),
        (b"[" * (DEEP + 1) + b"]" * (DEEP + 1), f"nested more than {DEEP} deep"),
        (b'{"a":' * 100_000, f"nested more than {DEEP} deep"),
        (b"1" * (limits.TEXT_DIGITS + 1), "digits"),
        (b"0." + b"1" * 1_000_000, "digits"),
        (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' stands twice"),
        (b"[NaN]", "finite numbers, got NaN"),
        (b"[-Infinity]", "finite numbers, got -Infinity"),
        (b"[1e999]", "finite numbers, got 1e999"),
        (b'["\\ud800"]', "surrogates"),
        (b'{"\\udfff": 1}', "surrogates"),
        (b"\xff\xfe", "not text: .* byte 0xff"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'"a\0"', "NUL"),
    ],
)
def test_json_that_cannot_be_is_one_sentence(
    content: bytes, said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataError, match=said) as caught:
        read_json(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 200


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (
            b"a.b = [1.5, 2.5]\r\n[[c]]\nd = 1e3",
            {"a": {"b": [1.5, 2.5]}, "c": [{"d": 1e3}]},
        ),
        (b"a = '[[[[' # " + b"[" * 1000, {"a": "[[[["}),
        (b"a = '''" + b"[" * 1000 + b"\n'''", {"a": "[" * 1000 + "\n"}),
        (b'a = """' + b'[\\"' * 1000 + b'"""', {"a": '["' * 1000}),
        (b'a = "' + b"." * 1000 + b'"', {"a": "." * 1000}),
        (b"a = [" + b"1.5," * 1000 + b"]", {"a": [1.5] * 1000}),
    ],
)
def test_toml_is_read_as_it_is(content: bytes, value: Any, tmp_path: Path) -> None:
    assert read_toml(written(tmp_path, content)) == value


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a", "not TOML"),
        (b"a = " + b"[" * 100_000, f"nested more than {DEEP} deep"),
        (b"a = " + b"{b = " * 100_000, f"nested more than {DEEP} deep"),
        (b"a" + b".a" * 100_000 + b" = 1", f"more than {limits.KEY_PARTS} parts"),
        (b'"a"' + b' . "a"' * 100 + b" = 1", f"more than {limits.KEY_PARTS} parts"),
        (b"[" + b"a." * 100 + b"a]", f"more than {limits.KEY_PARTS} parts"),
        (b"a = " + b"1" * 401, "digits"),
        (b"a = 0x" + b"f" * 401, "digits"),
        (b"a = nan", "finite"),
        (b"a = -inf", "finite"),
        (b"a = 1e999", "finite"),
        (b"a = 1\na = 2", "overwrite"),
        (b"a = '\xff'", "not text"),
        (b"\xef\xbb\xbfa = 1", "byte order mark"),
        (b"#" * (limits.PLAN_BYTES + 1), "at most 1,048,576 bytes"),
    ],
)
def test_toml_that_cannot_be_is_one_sentence(
    content: bytes, said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ConfigError, match=said) as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_file_may_be_so_large_and_no_larger(tmp_path: Path) -> None:
    path = written(tmp_path, b"12345")
    assert read_text(path, 5) == "12345"
    with pytest.raises(DataError, match="at most 4 bytes"):
        read_text(path, 4)
    with pytest.raises(DataError, match="there is no such file"):
        read_text(tmp_path / "none", 5)
