"""Several processes read a graph: what each has in its memory, and errors of the one that reads the source."""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from afgrl.data.dataset import Dataset
from afgrl.errors import AfgrlError
from afgrl.experiment.training import fit, resume
from afgrl.graph import Graph
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from afgrl.train.distributed import Processes
from afgrl.train.state import initial_state
from tests.conftest import communities
from tests.methods.short_runs import CPU, small_settings
from tests.train.processes import run_processes

STATUS = Path("/proc/self/status")


def anonymous_memory():
    return int(re.search(r"RssAnon:\s+(\d+) kB", STATUS.read_text())[1]) * 1024


def growth_of_prepared(rank, n_processes, folder, settings):
    """How much anonymous memory this process takes, at the most, until it can train."""
    ended, peaks = threading.Event(), [0]

    def sample():
        while not ended.wait(0.001):
            peaks[0] = max(peaks[0], anonymous_memory())

    before, sampler = anonymous_memory(), threading.Thread(target=sample)
    sampler.start()
    graph = Run(folder).shared_graph()
    state = initial_state("node_embedder", settings, graph, CPU, Processes(rank, n_processes, CPU).shards(graph.n))
    peaks[0] = max(peaks[0], anonymous_memory())
    del state
    ended.set()
    sampler.join()
    return peaks[0] - before


# In a new interpreter: memory that earlier tests freed, but that is still in the heap, would not count as growth. There
# glibc returns blocks of 64 KiB and more as soon as they are freed, so that the peak hardly differs between two runs.
RETURN_FREED = {"MALLOC_MMAP_THRESHOLD_": "65536"}
MOST_GROWTH = """
import json, sys
from pathlib import Path
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from tests.train.processes import run_processes
from tests.train.test_reading import growth_of_prepared
folder, settings = Path(sys.argv[1]), NodeEmbedderSettings.model_validate_json(sys.argv[2])
print(json.dumps([max(run_processes(size, growth_of_prepared, folder, settings)) for size in (2, 4)]))
"""


@pytest.mark.skipif(not STATUS.exists(), reason="reads the memory of a process from /proc")
def test_the_memory_of_a_process_is_that_of_its_rows(tmp_path, rng):
    n = 10_000
    graph = Graph(torch.randn(n, 256, generator=rng), torch.randint(n, (2, 1_000_000), generator=rng))
    whole = 4 * graph.x.numel() + 8 * graph.edge_index.numel()  # 42 MB
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run")
    run.save_spec(RunSpec("somewhere.npz"))
    run.save_dataset(Dataset("graph", graph))
    settings = small_settings("node_embedder", graph, steps=2, skip="none", input="own", batch_size=20)
    words = [sys.executable, "-c", MOST_GROWTH, str(run.path), settings.model_dump_json()]
    root, environment = Path(__file__).parents[2], os.environ | RETURN_FREED
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, cwd=root, env=environment)
    of_two, of_four = json.loads(done.stdout)
    # Measured 57 and 29 MiB; 98 and 87 if each process has the whole graph of 40 MiB in memory. Sorting the columns of
    # own edges takes several times their memory, so that two processes need more than the whole.
    assert of_four < 0.6 * of_two
    assert of_four < whole


def failure(rank, n_processes, call, *arguments):
    with pytest.raises(AfgrlError) as raised:
        call(*arguments, Processes(rank, n_processes, CPU))
    return type(raised.value).__name__, str(raised.value)


def test_an_error_of_the_process_that_reads_is_one_sentence_in_all(tmp_path):
    missing = RunSpec(str(tmp_path / "none.pt"))
    graph = communities()
    torch.save({"x": graph.x, "edge_index": graph.edge_index}, tmp_path / "graph.pt")
    run = fit(RunSpec(str(tmp_path / "graph.pt"), settings={"steps": 1, "skip": "svd"}), tmp_path / "run", CPU)
    file = run.path / "graph.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    (run.path / "model.json").unlink()  # training has to continue
    for call, sentence in (
        ((fit, missing, tmp_path / "new"), "none.pt"),
        ((resume, run), "its values do not have the stored checksum"),
    ):
        one, other = run_processes(2, failure, *call)
        assert one == other
        assert one[0] == "UserError"
        assert sentence in one[1]
    assert not (tmp_path / "new").exists()
