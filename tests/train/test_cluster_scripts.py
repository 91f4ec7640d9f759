"""The batch script and the manifest of docs/scale.md: their shell, torchrun's options, and names that must agree.

`python -m benchmarks.machines` and `python -m benchmarks.slurm` run them.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from torch.distributed.run import config_from_args, get_args_parser

yaml = pytest.importorskip("yaml")  # a dependency of sentence-transformers

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"


def block(heading, language):
    section = DOCUMENT.read_text(encoding="utf-8").split(f"### {heading}\n")[1]
    return section.split(f"```{language}\n")[1].split("```")[0]


def torchrun(script):
    """What torchrun understands of its command in a script, and the words that start the processes."""
    command = re.search(r"torchrun (.*?[^\\])$", script, flags=re.DOTALL | re.MULTILINE)[1].replace("\\\n", " ")
    given = get_args_parser().parse_args(shlex.split(command.replace("$SLURM_NNODES", "8")))
    config, _, words = config_from_args(given)
    return config, words[-len(given.training_script_args) - 1 :]


@pytest.fixture(scope="module")
def manifest():
    return list(yaml.safe_load_all(block("Kubernetes", "yaml")))


@pytest.fixture(scope="module")
def container(manifest):
    (one,) = manifest[1]["spec"]["template"]["spec"]["containers"]
    return one


def check_shell(shell, script):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_the_shells_understand_the_scripts(container):
    check_shell("bash", block("Slurm", "sh"))
    check_shell("bash", block("Several machines", "sh"))
    check_shell("sh", container["command"][-1])


@pytest.mark.parametrize("heading", ["Several machines", "Slurm"])
def test_torchrun_understands_the_commands(heading):
    script = block(heading, "sh")
    config, words = torchrun(script)
    assert (config.rdzv_backend, config.max_restarts, config.nproc_per_node) == ("c10d", 3, 8)
    assert words[:3] == ["afgrl", "fit", "SOURCE"]
    assert "export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in script.splitlines()
    if heading == "Slurm":
        assert f"#SBATCH --nodes={config.max_nodes}" in script
        assert f"#SBATCH --gpus-per-node={config.nproc_per_node}" in script


def test_pods_find_each_other(manifest, container):
    service, job = manifest
    pods, name = job["spec"]["template"]["spec"], job["metadata"]["name"]
    config, words = torchrun(container["command"][-1])
    assert config.rdzv_endpoint == f"{name}-0.{pods['subdomain']}:29500"
    assert service["metadata"]["name"] == pods["subdomain"]
    assert service["spec"]["selector"] == {"job-name": name}  # a label that the Job sets
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == config.min_nodes == config.max_nodes
    assert job["spec"]["backoffLimit"] >= 2 * config.max_nodes  # all pods may fail because of one
    assert container["resources"]["limits"]["nvidia.com/gpu"] == config.nproc_per_node
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pods["volumes"]}
    assert words[:3] == ["afgrl", "fit", "SOURCE"]
