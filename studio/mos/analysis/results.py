"""Results of a campaign (counts, funnel and tables), computed once for each change."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, tzinfo
from functools import partial
from typing import Any

from sqlmodel import Session, col, func, select

from studio.core.errors import BadFile, BadOption
from studio.mos.analysis.answers import consistency_tables, load_answers, repeated_answers
from studio.mos.analysis.beside_means import rank_test_results, second_opinions, subject_bias_results
from studio.mos.analysis.clips import predicted, systems_by_script
from studio.mos.analysis.margins import margin_results
from studio.mos.analysis.quality import RaterVerdicts, excluded_raters, gate_counts, rater_verdicts
from studio.mos.analysis.stopping_rule import estimates, interim_looks
from studio.mos.analysis.usable import unusable_raters
from studio.mos.analysis.versions import ResultsVersion, VersionedCache, results_version
from studio.mos.campaign.config import CampaignConfig, Margins, campaign_config
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.marked import marked
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions import takes
from studio.mos.sessions.answers import count_answers
from studio.mos.sessions.campaigns import LoadedCampaign, find_campaign, load_campaign, opening_problems
from studio.mos.sessions.parts import ordered_stages
from studio.mos.stats.agreement import RaterConsensus
from studio.mos.store.database import Store
from studio.mos.store.tables import (
    Answer,
    Campaign,
    Look,
    Passage,
    Play,
    Rater,
    Removal,
    Stimulus,
    System,
    Trial,
)


def overview(session: Session, campaign: Campaign) -> dict[str, Any]:
    """Counts of a campaign.

    ``answers``: answers to test trials; ``counted``: those of raters whom neither a gate nor the post-screening
    excludes; ``wanted``: the required number (0: open-ended), of ``counted`` with ``replace_excluded``; ``aside``:
    answers to training, traps, golds and repeats; ``skipped``: live trials that raters had to skip; ``stopped``: the
    look that closed the campaign, if any; ``lacking``: what a draft needs first, empty if it can be opened.
    """
    config, lacking, wanted = campaign_config(campaign), "", 0
    try:
        run = load_campaign(session, campaign)
        wanted = 0 if run.kind.is_standing else len(run.units) * config.raters_per_stimulus
    except (BadFile, BadOption):
        if campaign.state != "draft":
            raise
    if campaign.state == "draft" and (issues := opening_problems(session, campaign)):
        lacking = issues[0].what
    raters = session.exec(select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel")).all()
    forgotten = session.exec(select(Removal).where(Removal.campaign_id == campaign.id)).all()
    answers = count_answers(session, campaign.id or 0)
    unusable = unusable_raters(session, campaign) if answers else frozenset[str]()
    lost = count_answers(session, campaign.id or 0, only=unusable).get("test", 0) if unusable else 0
    last = next((look for look in reversed(interim_looks(session, campaign)) if look.met), None)
    return {
        "name": campaign.name,
        "kind": campaign.kind,
        "title": config.texts.title,
        "state": campaign.state,
        "lacking": lacking,
        "raters": len(raters),
        "finished": sum(r.finished_at is not None for r in raters),
        "unusable_raters": len(unusable),
        "answers": answers.get("test", 0),
        "counted": answers.get("test", 0) - lost,
        "aside": sum(answers.values()) - answers.get("test", 0),
        "wanted": wanted,
        "skipped": sum(count_answers(session, campaign.id or 0, skipped=True).values()),
        "stopped": _look(last) if last is not None and campaign.state == "closed" else None,
        "forgotten": {"raters": len(forgotten), "answers": sum(r.answers for r in forgotten)},
    }


def campaigns_by_last_answer(session: Session) -> list[str]:
    """Names of all campaigns, the most recently answered first; those without answers by age."""
    newest = func.max(Answer.received_at).label("newest")
    answered = session.exec(
        select(Trial.campaign_id, newest)
        .select_from(Answer)
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Answer.counted == 1, Rater.role == "panel")
        .group_by(col(Trial.campaign_id))
    )
    at = dict(answered.all())
    campaigns = session.exec(select(Campaign).order_by(col(Campaign.created_at).desc(), col(Campaign.id).desc())).all()
    return [c.name for c in sorted(campaigns, key=lambda c: at.get(c.id or 0, 0.0), reverse=True)]


def funnel(session: Session, campaign: Campaign) -> list[dict[str, Any]]:
    """Number of raters who completed each stage, in order, and of those who ended early.

    It starts at consent: nothing is stored about visitors without it.
    """
    run = load_campaign(session, campaign)
    order = ordered_stages(run.config)
    raters = session.exec(select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel")).all()
    left_at: dict[int | None, str] = {}  # last stage of raters who left
    for rater, stage in session.exec(
        select(Passage.rater_id, Passage.stage)
        .join(Rater, col(Rater.id) == col(Passage.rater_id))
        .where(Rater.campaign_id == campaign.id, Rater.role == "panel")
        .order_by(col(Passage.id))
    ):
        left_at[rater] = stage
    current = Counter(r.stage for r in raters)
    last_stages = [
        r.stage if r.stage in order else "trials" if r.stage == "full" else left_at.get(r.id) for r in raters
    ]
    completed = Counter(stage for s in last_stages if s in order for stage in order[: order.index(s)])
    completed["done"] = current["done"]
    order = order[: order.index("trials")] if run.kind.is_standing else order  # raters of an arena never complete it
    order = [s for s in order if s != "comments" or not run.config.then]  # requested at the end of the last part
    rows = [{"stage": stage, "raters": completed[stage]} for stage in order]
    rows += [{"stage": end, "raters": current[end]} for end in ("screened_out", "withdrawn", "full") if current[end]]
    return rows


def results(
    session: Session,
    campaign: Campaign,
    *,
    everyone: bool = False,
    margins: Margins | None = None,
    baseline: str | None = None,
    zone: tzinfo = UTC,
) -> dict[str, Any]:
    """Overview, funnel, gates and the kind's tables, as JSON values.

    Raters excluded by the quality gates are left out unless ``everyone``; the number excluded by each gate is always
    given, also by day of joining in ``zone``. ``margins`` and ``baseline`` replace those of the campaign's settings for
    this call. Raises BadOption for a margin that does not fit the test, or an unknown baseline.
    """
    run = load_campaign(session, campaign)
    config = replace(run.config, margins=margins or run.config.margins, baseline=baseline or run.config.baseline)
    loaded = load_answers(session, run.id, everyone=True)
    verdicts = rater_verdicts(session, campaign, loaded)
    excluded = set[str]() if everyone else {j.pseudonym for j in verdicts if j.use == "fail"}
    answers = [a for a in loaded if a.rater not in excluded]
    systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
    roles = {s.name: s.role for s in systems}
    run.kind.check_margins(config)
    if baseline is not None and baseline not in roles:
        raise BadOption(f"the baseline {baseline!r} is not one of the systems", f"choose {', '.join(roles)}")
    return {
        **overview(session, campaign),
        "seed": campaign.seed,
        "everyone": everyone,
        "left_out": len(excluded),
        "design": _design(run.config),
        "rule": {"level": 0.95, **asdict(run.config.stop)},
        "looks": [_look(look) for look in interim_looks(session, campaign)],
        "systems": [{"name": s.name, "role": s.role, "voice": json.loads(s.voice)} for s in systems],
        "sounds": systems_by_script(session, campaign),
        "funnel": funnel(session, campaign),
        "gates": gate_counts(verdicts, zone),
        "effort": _effort(session, run.id),
        "takes": takes.latency_figures(session, run.id) if run.kind.is_live else [],
        "loudness": _loudness(session, run.id),
        "consistency": consistency_tables(repeated_answers(session, run.id), excluded),
        "consensus": _consensus(run, campaign.seed, verdicts, loaded),
        "predicted": predicted(session, campaign),
        **analysis(config, answers, campaign.seed, roles, is_declared=config == run.config),
    }


def analysis(
    config: CampaignConfig,
    answers: Sequence[CountedAnswer],
    seed: int,
    roles: Mapping[str, str],
    *,
    is_declared: bool = False,
) -> dict[str, Any]:
    """The part of the results that depends only on the answers, of a campaign or a file.

    Args:
        config: settings.
        answers: the counted answers.
        seed: of the posterior's draws.
        roles: test, reference or anchor by system.
        is_declared: whether margins and baseline were set before the test.
    """
    kind, answers = kind_of(config.kind), marked(answers)
    tables, analysed = kind.analyse(config, answers, seed=seed), kind.analysed_answers(config, answers)
    questions = [{"id": q.id, "prompt": q.prompt, "low": q.low, "high": q.high} for q in config.questions]
    anchors = [name for name, role in roles.items() if role == "anchor"]
    checks = [name for name, role in roles.items() if role != "test"]
    tests = margin_results(tables, questions, config.margins, config.baseline, anchors)
    return {
        "questions": questions,
        "prompt": config.prompt,
        "tables": tables,
        "margins": {**asdict(config.margins), "is_declared": is_declared, "tests": tests},
        "rank_tests": rank_test_results(config.questions, analysed, tables, checks),
        "subject_bias": subject_bias_results(config.questions, analysed, tables),
        "second_opinion": second_opinions(config.questions, answers, tables),
    }


def analysed_answers(session: Session, campaign: Campaign) -> list[CountedAnswer]:
    """The answers used for the results: those of raters that no gate excludes."""
    excluded = excluded_raters(session, campaign)
    return [a for a in load_answers(session, campaign.id or 0, everyone=True) if a.rater not in excluded]


def _consensus(
    run: LoadedCampaign, seed: int, verdicts: Sequence[RaterVerdicts], answers: Sequence[CountedAnswer]
) -> dict[str, Any]:
    """Agreement of each rater with the others, and the effect of the (post-hoc) gate."""
    out = consensus_rows(run.config, [(j.pseudonym, j.consensus, j.verdicts["consensus"]) for j in verdicts])
    before = {j.pseudonym for j in verdicts if j.use_without_consensus != "fail"}
    after = {j.pseudonym for j in verdicts if j.pseudonym in before and j.verdicts["consensus"] != "fail"}
    if before == after:
        return out
    with_failed, without_failed = (
        dict(estimates(run.kind.analyse(run.config, [a for a in answers if a.rater in some], seed=seed)))
        for some in (before, after)
    )
    rows = [{"name": name, "everybody": dict(i), "kept": without_failed.get(name)} for name, i in with_failed.items()]
    return out | {"failed": len(before) - len(after), "estimates": rows}


def consensus_rows(config: CampaignConfig, raters: Sequence[tuple[str, RaterConsensus | None, str]]) -> dict[str, Any]:
    """Agreement of each rater (name, consensus, verdict) with the others, and the settings of the gate."""
    gates = config.gates
    return {
        "by": gates.consensus_by,
        "minimum": gates.min_consensus,
        "answers": gates.consensus_answers,
        "required": gates.consensus_required,
        "raters": [
            {"rater": rater, **asdict(agreement), "verdict": verdict}
            for rater, agreement, verdict in raters
            if agreement
        ],
        "failed": 0,
        "estimates": [],
    }


def _look(look: Look) -> dict[str, Any]:
    return {**look.model_dump(include={"raters", "why", "at"}), "met": bool(look.met)}


def _design(config: CampaignConfig) -> dict[str, Any]:
    """Settings that a reader of the results needs."""
    names = (
        "raters_per_stimulus",
        "replace_excluded",
        "trials_per_sitting",
        "pairs",
        "baseline",
        "must_listen",
        "repeats",
    )
    names += ("levels", "incomplete", "show_text", "text_after", "then")
    gates = asdict(config.gates) | {"screening": len(config.gates.screening)}
    texts = {"consent_version": config.texts.consent_version, "language": config.texts.language}
    arena = asdict(config.arena) if kind_of(config.kind).is_standing else None
    settings = {name: getattr(config, name) for name in names} | {"margins": asdict(config.margins)}
    return settings | {"gates": gates, "choices": list(config.choices), "arena": arena, **texts}


def _effort(session: Session, campaign_id: int) -> dict[str, Any]:
    """Median response time and mean number of plays."""
    times = sorted(
        session.exec(
            select(Answer.response_ms)
            .join(Trial, col(Trial.id) == col(Answer.trial_id))
            .join(Rater, col(Rater.id) == col(Trial.rater_id))
            .where(Trial.campaign_id == campaign_id, Answer.counted == 1, Rater.role == "panel", Answer.missing == "")
        ).all()
    )
    plays = session.exec(
        select(func.avg(Play.plays))
        .join(Answer, col(Answer.id) == col(Play.answer_id))
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == campaign_id, Answer.counted == 1, Rater.role == "panel")
    ).one()
    return {
        "median_response_ms": times[len(times) // 2] if times else None,
        "mean_plays": None if plays is None else float(plays),
    }


def _loudness(session: Session, campaign_id: int) -> dict[str, Any]:
    """Loudness levels, range of gains, and source sampling rates."""
    rows = session.exec(select(Stimulus).where(Stimulus.campaign_id == campaign_id)).all()
    gains = [s.gain_db for s in rows]
    return {
        "lufs": max((s.lufs_after for s in rows), default=None),
        "lowest_lufs": min((s.lufs_after for s in rows), default=None),
        "gain_db": [min(gains), max(gains)] if gains else None,
        "source_rates_hz": sorted({s.source_rate_hz for s in rows}),
    }


class ResultsCache:
    """The latest results of the most recently requested campaigns; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache = VersionedCache[tuple[str, bool, tzinfo], dict[str, Any]](16)

    def get(self, campaign: str, everyone: bool = False, zone: tzinfo = UTC) -> tuple[ResultsVersion, dict[str, Any]]:
        """A version that changes with the results, and the results. Raises BadOption, BadFile."""
        with self._store.read() as session:
            row = find_campaign(session, campaign)
            make = partial(results, session, row, everyone=everyone, zone=zone)
            return self._cache.get((campaign, everyone, zone), results_version(session, row), make)
