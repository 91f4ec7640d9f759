import io
import threading
from email.message import Message

import pytest
import torch

from afgrl.data import load
from afgrl.data.benchmarks.cache import cache_folder, cached
from afgrl.data.benchmarks.raw import RawFiles
from afgrl.errors import UserError
from tests.data.small_files import write_planetoid


def test_the_error_for_a_missing_file_has_its_url_and_how_to_pass_a_copy(tmp_path):
    with pytest.raises(UserError) as caught:
        load("wikics", data_dir=tmp_path)
    sentence = str(caught.value)
    address = "https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset/data.json"
    for part in (
        f"not in {tmp_path}",
        address,
        "unreachable",
        "DIR/WikiCS/raw/data.json",
        "--data-dir",
        "AFGRL_DATA",
    ):
        assert part in sentence
    assert "\n" not in sentence
    assert sentence.count(". ") == 0


def test_without_a_data_folder_the_error_names_none():
    with pytest.raises(
        UserError, match=r"^The file Photo/raw/amazon_electronics_photo.npz is not available locally and"
    ):
        load("photo")


def test_a_dataset_is_not_available_if_one_of_its_files_is_missing(tmp_path):
    raw = write_planetoid(tmp_path)
    files = RawFiles("Cora", tuple(sorted(path.name for path in raw.iterdir())), "https://nowhere")
    assert len(files.available(tmp_path)) == 8
    (raw / "ind.cora.ty").unlink()
    assert files.available(tmp_path) is None


def test_a_data_folder_that_does_not_exist_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="The data folder does not exist or is not a folder: /no/such"):
        load("photo", data_dir="/no/such")
    monkeypatch.setenv("AFGRL_DATA", "/none/here")
    with pytest.raises(UserError, match="in AFGRL_DATA does not exist or is not a folder: /none/here"):
        load("photo")


def test_a_cache_folder_that_is_not_writable_is_an_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("AFGRL_CACHE", str(blocked))
    with pytest.raises(UserError, match=r"is not writable .* set AFGRL_CACHE"):
        load("photo")


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("AFGRL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert str(cache_folder()) == "/x/afgrl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert str(cache_folder()) == "/home/someone/.cache/afgrl"


def test_a_damaged_cache_is_computed_again(tmp_path, own_cache):
    raw = tmp_path / "raw"
    raw.write_text("1")
    assert cached("a", [raw], lambda folder: {"x": torch.ones(3)})["x"].sum() == 3
    (stored,) = (own_cache / "processed").iterdir()
    stored.write_bytes(stored.read_bytes()[:100])
    assert cached("a", [raw], lambda folder: {"x": torch.ones(4)})["x"].sum() == 4
    assert cached("a", [raw], lambda folder: {"x": torch.ones(5)})["x"].sum() == 4


def test_two_processes_can_fill_the_cache_at_the_same_time(tmp_path, own_cache):
    raw = tmp_path / "raw"
    raw.write_text("1")
    both_started = threading.Barrier(2, timeout=10)
    results = []

    def make(folder):
        assert not list(folder.iterdir()), "each has its own scratch folder"
        (folder / "Photo").mkdir()
        both_started.wait()
        return {"x": torch.arange(1000)}

    threads = [threading.Thread(target=lambda: results.append(cached("a", [raw], make))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [int(tensors["x"].sum()) for tensors in results] == [499500, 499500]
    assert len(list((own_cache / "processed").iterdir())) == 1
    assert int(cached("a", [raw], make)["x"].sum()) == 499500


class Response(io.BytesIO):
    def __init__(self, content, length):
        super().__init__(content)
        self.headers = Message()
        self.headers["Content-Length"] = str(length)


def test_an_incomplete_download_leaves_no_file(tmp_path, monkeypatch):
    files = RawFiles("Photo", ("a.npz",), "https://nowhere")
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: Response(b"12345", 10))
    with pytest.raises(UserError, match="ended after 5 of 10 bytes"):
        files.locate(tmp_path)
    assert files.available(tmp_path) is None
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: Response(b"1234567890", 10))
    assert files.locate(tmp_path)[0].read_bytes() == b"1234567890"
