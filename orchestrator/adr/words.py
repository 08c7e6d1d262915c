"""The words of a record: every sentence that a section needs, as one value for each language.

A template names what is put into it, ``{table}``; both languages name the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Words(Struct, frozen=True):
    """All that a record says beside the runbook's own texts. ``language``: its code."""

    language: str
    # Signs and small words.
    comma: str
    colon: str
    semicolon: str
    stop: str
    none: str
    yes: str
    no: str
    why: str
    added: str
    stands: str
    beside: str
    # Who speaks to the table.
    versions: Mapping[str, str]
    versions_short: Mapping[str, str]
    # The head.
    made_by: str
    status: str
    frozen: str
    refused: str
    rollout: str
    table: str
    model: str
    owner: str
    digest: str
    proof: str
    proof_of: str
    proof_missing: str
    # Titles.
    context_title: str
    strategy_title: str
    fields_title: str
    indexes_title: str
    deletes_title: str
    mappings_title: str
    matrix_title: str
    mirror_title: str
    diagram_title: str
    ddl_title: str
    prisma_title: str
    release_title: str
    rollback_title: str
    open_title: str
    # Context and the physical table.
    adds: str
    context: tuple[str, ...]
    table_stays: str
    model_same: str
    model_mapped: str
    copied_once: str
    never_copied: str
    columns_nullable: str
    changed: str
    columns_stay: str
    renames: Mapping[str, str]
    keyed: str
    collated: str
    # Fields.
    fields_intro: str
    field_head: tuple[str, ...]
    left_title: str
    left_intro: str
    stays: str
    stays_beside: str
    removed_later: str
    # Indexes and delete rules.
    indexes_intro: str
    index_head: tuple[str, ...]
    served_intro: str
    serves_many: str
    serves_key: str
    serves_unique: str
    serves_nothing: str
    deletes_intro: str
    delete_head: tuple[str, ...]
    effects: Mapping[str, str]
    no_relations: str
    # Mappings.
    mappings_intro: str
    no_mappings: str
    formulas_title: str
    formula_head: tuple[str, ...]
    unmapped_refused: str
    unmapped_kept: str
    no_counterpart: str
    conflict: Mapping[str, str]
    follows: str
    pair: str
    derived: str
    copied: str
    # The matrix.
    proven: str
    not_proven: str
    shapes: Mapping[str, str]
    stage_shape_head: tuple[str, ...]
    matrix_legend: str
    column: str
    rollout_writes: str
    filled_and_mirrored: str
    filled: str
    mirrored: str
    refusals: str
    no_refusals: str
    hazards: str
    unproven: str
    unnamed: str
    # The mirror.
    no_mirror: str
    mirror_intro: str
    mirror_triggers: str
    mirror_double_writes: str
    mirror_pairs: str
    mirror_follows: str
    mirror_once: str
    mirror_rules: tuple[str, ...]
    mirror_conflict_old: str
    mirror_trial: str
    # Diagram, DDL, Prisma.
    diagram_intro: str
    ddl_intro: str
    ddl_head: tuple[str, ...]
    steps: Mapping[str, str]
    step_trigger: str
    rows_free: str
    rows_online: str
    rows_stopped: str
    rows_rebuilt: str
    rows_copied: str
    rows_declared: str
    rows_read: str
    lock_none: str
    lock_moment: str
    lock_tables: str
    lock_ends: str
    lock_cut_over: str
    risk_queue: str
    risk_build: str
    risk_replica: str
    risk_snapshot: str
    risk_trial: str
    prisma_intro: str
    # The way forward and the way back.
    release_intro: str
    release_steps: tuple[str, ...]
    stages_title: str
    stage_head: tuple[str, ...]
    stages: Mapping[str, tuple[str, str, str, str]]
    stage_double_writes: tuple[str, str, str, str]
    old_untouched: str
    watcher_back: str
    watcher_stays: str
    ddl_kept: str
    ddl_dropped: str
    rollback_itself: str
    rollback_head: tuple[str, ...]
    rollback_ways: Mapping[str, str]
    rollback_order: str
    rollback_steps: tuple[str, ...]
    meter: str
    lost_values: str
    lost_columns: str
    back_ddl: str
    # What is left open.
    invariants: str
    invariant_head: tuple[str, ...]
    waivers: str
    waiver_head: tuple[str, ...]
    no_waivers: str
    later: tuple[str, ...]


def moment(seconds: float) -> str:
    """A duration as both languages write it, in the greatest unit that keeps it whole."""
    if seconds >= 60 and seconds % 60 == 0:
        return f"{seconds / 60:g} min"
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"
