"""What a run was asked to be, and where it ran."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import replace as replace_fields
from typing import Any

import torch

from afgrl.errors import UserError
from afgrl.runs import replace
from afgrl.runs.environment import current_environment
from afgrl.runs.files import write_json
from afgrl.runs.parts.files import RunFiles
from afgrl.runs.readers import read_record, reading
from afgrl.runs.recognition import CONFIG, HEADER
from afgrl.runs.spec import RunSpec
from afgrl.runs.versions import FORMAT, current


class SpecificationFiles(RunFiles):
    def save_spec(self, spec: RunSpec) -> None:
        command = spec.command(self.path / CONFIG)
        lines = [f"# Repeat this run: {command}"] if command and command.isprintable() else []  # a comment is one line
        lines += [HEADER, f"format = {FORMAT}", ""]
        try:
            text = ("\n".join(lines) + spec.to_toml()).encode()
        except UnicodeEncodeError:
            raise UserError(f"The name of the source is not valid text: {spec.source!r}; rename it.") from None
        self._replace(CONFIG, lambda path: path.write_bytes(text))
        replace.begin(self.path)

    def spec(self) -> RunSpec:
        with reading(self.path / CONFIG):
            spec = RunSpec.from_toml(self._config())
            method, settings = current(spec.method, spec.settings)
            return replace_fields(spec, method=method, settings=settings)

    def _config(self) -> dict[str, Any]:
        with reading(self.path / CONFIG):
            return tomllib.loads((self.path / CONFIG).read_text(encoding="utf-8"))

    def save_environment(self, device: torch.device, agents: Collection[str] = ()) -> None:
        """``agents`` of torchrun started the processes of the run; restarted, they recognize it as theirs."""
        started = {"started by": sorted(agents)} if agents else {}
        write_json(self.path / "environment.json", current_environment(device) | started)

    def environment(self) -> dict[str, Any]:
        """Device, versions and commit; empty if they were not recorded."""
        file = self.path / "environment.json"
        return read_record(file, versions=dict) if file.is_file() else {}
