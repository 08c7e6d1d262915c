"""The one way from a file to a Runbook. Strict: what is not understood is a finding with its line, never a guess."""

from __future__ import annotations

from pathlib import Path

from orchestrator.model.findings import FileFindings
from orchestrator.model.runbook import Runbook
from orchestrator.runbook import settings_build
from orchestrator.runbook.build import Builder
from orchestrator.runbook.digest import digest
from orchestrator.runbook.source import clean_text, read_source
from orchestrator.runbook.tree import read_document
from orchestrator.runbook.validate import read_form


def load(path: Path) -> Runbook:
    """The runbook in that file. Raises RunbookError; ``seen`` begins with ``path:line`` when a line is to blame."""
    return parse(read_source(Path(path)), str(path))


def parse(text: str, path: str) -> Runbook:
    """The runbook that the text means; ``path`` is only named in findings. Raises FileFindings, and nothing else."""
    text = clean_text(text)
    document = read_document(text, path)
    form, found = read_form(document)
    if form is None or found:
        raise FileFindings(path, found)
    build = Builder(document)
    contract = build.contract(form)
    runbook = Runbook(
        id=form.name,
        contract=contract,
        digest=digest(contract),
        text=text,
        path=path,
        why=form.why,
        owner=form.owner,
        phases=settings_build.phase_settings(form.phases, build),
        limits=settings_build.limits(form.checks, build),
        replicas=settings_build.replicas(form.replicas, build),
        gates=settings_build.gates(form.gates, form.phases.read_switch.gates, build),
        prometheus=settings_build.prometheus(form.prometheus),
        waivers=settings_build.waivers(form.waivers, build),
        notify=settings_build.notify(form.notify, build),
        decision=settings_build.decision(form.adr, contract, build),
    )
    settings_build.check_throttle(form.checks, runbook.gates, build)
    if build.findings:
        raise FileFindings(path, build.findings)
    return runbook
