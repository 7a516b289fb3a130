"""Files: compression by suffix, limits, broken files, whole writes."""

from __future__ import annotations

import builtins
import gzip
import os
import random
from pathlib import Path

import pytest
import zstandard

from beforehand.errors import InputError
from beforehand.formats import Limits, open_bytes, replacing


def read_all(path: Path, *, limits: Limits | None = None) -> bytes:
    with open_bytes(path, limits=limits or Limits()) as stream:
        return b"".join(iter(lambda: stream.read(50_000), b""))


def noise(size: int) -> bytes:
    return random.Random(7).randbytes(size)


@pytest.mark.parametrize("name", ["a.gz", "a.GZ"])
def test_gzip_of_several_members_is_read_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))

    assert read_all(path) == b"one two"


def test_zstd_of_several_frames_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    compressor = zstandard.ZstdCompressor()
    data = noise(300_000)
    path.write_bytes(compressor.compress(data) + compressor.compress(b"") + compressor.compress(b"two"))

    assert read_all(path) == data + b"two"


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_cut_file_is_broken_not_short(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with replacing(path) as stream:
        stream.write(noise(300_000))
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(InputError, match="broken"):
        read_all(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_other_content_than_the_suffix_says_is_broken(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b'{"process":"a"}\n')

    with pytest.raises(InputError, match=f"{path.name}: broken"):
        read_all(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_changed_content_is_noticed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with replacing(path) as stream:
        stream.write(noise(300_000))
    data = bytearray(path.read_bytes())
    data[150_000] ^= 1
    path.write_bytes(data)

    with pytest.raises(InputError, match="broken"):
        read_all(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_bomb_stops_at_its_ratio(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with replacing(path) as stream:
        for _ in range(64):
            stream.write(bytes(1 << 20))

    with pytest.raises(InputError, match="more than 500 times"):
        read_all(path, limits=Limits(decompression_ratio_max=500))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_size_after_decompression_is_limited(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with replacing(path) as stream:
        stream.write(noise(2_000))

    assert len(read_all(path, limits=Limits(decompressed_bytes_max=2_000))) == 2_000
    with pytest.raises(InputError, match="more than 1999 bytes"):
        read_all(path, limits=Limits(decompressed_bytes_max=1_999))


def test_small_files_may_have_any_ratio(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(bytes(1_000_000)))

    assert len(read_all(path)) == 1_000_000


def test_zstd_window_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    parameters = zstandard.ZstdCompressionParameters(window_log=30)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path.write_bytes(writer.compress(b"small") + writer.flush())

    with pytest.raises(InputError, match="memory"):
        read_all(path)


def test_missing_zstandard_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(b"")
    real_import = builtins.__import__

    def fake_import(name: str, *rest: object) -> object:
        if name == "zstandard":
            raise ImportError(name)
        return real_import(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", fake_import)

    with pytest.raises(InputError, match=r"beforehand\[history\]"):
        read_all(path)


@pytest.mark.parametrize("name", ["missing", "with\x00nul"])
def test_what_cannot_be_opened_is_an_input_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot open"):
        read_all(tmp_path / name)
    with pytest.raises(InputError, match="cannot write"), replacing(tmp_path / "no" / name):
        pass


def test_failed_writing_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(b"old")

    with pytest.raises(TypeError), replacing(path) as stream:
        stream.writelines([b"new", None])  # type: ignore[list-item]

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_link_stays_a_link(tmp_path: Path) -> None:
    path = tmp_path / "real"
    link = tmp_path / "link"
    link.symlink_to(path)

    with replacing(link) as stream:
        stream.write(b"new")

    assert link.is_symlink()
    assert path.read_bytes() == b"new"


def test_device_is_written_in_place() -> None:
    with replacing(os.devnull) as stream:
        stream.write(b"gone")

    assert not os.path.isfile(os.devnull)


def test_directory_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"), replacing(tmp_path):
        pass


def test_limits_refuse_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="text_max"):
        Limits(text_max=0)
    with pytest.raises(ValueError, match="depth_max"):
        Limits(depth_max=10_000)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
def test_a_compressed_file_without_a_byte_is_broken_not_empty(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with open_bytes(tmp_path / name) as stream, pytest.raises(InputError, match="the file is empty"):
        stream.read(10)
    write_nothing = tmp_path / f"whole-{name}"
    with replacing(write_nothing):
        pass
    with open_bytes(write_nothing) as stream:
        assert stream.read(10) == b""
