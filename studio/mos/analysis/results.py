"""Where a campaign stands: counts, funnel, tables; what the results page, the report and the command line show."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlmodel import Session, col, func, select

from studio.core.errors import BadFile, BadOption
from studio.mos.analysis.consensus import rules, with_and_without
from studio.mos.analysis.consistency import consistency_tables, twice
from studio.mos.analysis.interim_looks import interim_looks
from studio.mos.analysis.judgements import judgements
from studio.mos.analysis.predicted import predicted
from studio.mos.analysis.quality import Judgement, gates, judge, left_out
from studio.mos.analysis.rated_sound import sounds_of
from studio.mos.analysis.second_opinion import second_opinions
from studio.mos.campaign.config import CampaignConfig, from_json
from studio.mos.kinds.base import Judged
from studio.mos.kinds.registry import kind_of
from studio.mos.rating import takes
from studio.mos.rating.answers import counted_answers, skipped_screens
from studio.mos.rating.campaigns import Running, problems, running
from studio.mos.rating.steps import stages
from studio.mos.store.tables.answers import Answer, Play
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.looks import Look
from studio.mos.store.tables.raters import Passage, Rater, Removal
from studio.mos.store.tables.stimuli import Stimulus, System
from studio.mos.store.tables.trials import Trial


def overview(session: Session, campaign: Campaign) -> dict[str, Any]:
    """Counts of a campaign: raters, those who finished, answers that count, answers wanted, raters forgotten.

    ``answers`` are those to test screens, of which so many are ``wanted`` (0: there is no end); ``aside`` are those to
    practice, traps, golds and repeats; ``skipped`` are live screens that raters had to leave out.
    ``stopped`` is the look that closed the campaign, None where none did.
    ``lacking`` says what a draft that is being filled needs first, empty when it can be opened.
    """
    config, lacking, wanted = from_json(json.loads(campaign.config)), "", 0
    try:
        run = running(session, campaign)
        wanted = 0 if run.kind.standing else len(run.units) * config.raters_per_stimulus
    except (BadFile, BadOption):
        if campaign.state != "draft":
            raise
    if campaign.state == "draft" and (found := problems(session, campaign)):
        lacking = found[0].what
    raters = session.exec(select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel")).all()
    forgotten = session.exec(select(Removal).where(Removal.campaign_id == campaign.id)).all()
    answers = counted_answers(session, campaign.id or 0)
    last = next((look for look in reversed(interim_looks(session, campaign)) if look.met), None)
    return {
        "name": campaign.name,
        "kind": campaign.kind,
        "title": config.texts.title,
        "state": campaign.state,
        "lacking": lacking,
        "raters": len(raters),
        "finished": sum(r.finished_at is not None for r in raters),
        "answers": answers.get("test", 0),
        "aside": sum(answers.values()) - answers.get("test", 0),
        "wanted": wanted,
        "skipped": skipped_screens(session, campaign.id or 0),
        "stopped": _look(last) if last is not None and campaign.state == "closed" else None,
        "forgotten": {"raters": len(forgotten), "answers": sum(r.answers for r in forgotten)},
    }


def last_answered_first(session: Session) -> list[str]:
    """The names of all campaigns: what raters answered last comes first, those without an answer by their age."""
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
    """How many raters have each stage behind them, in order; and how many ended elsewhere.

    It begins with those who agreed: of others nothing is kept.
    """
    run = running(session, campaign)
    order = stages(run.config)
    raters = session.exec(select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel")).all()
    left_at: dict[int | None, str] = {}  # of those who went away on the way: the last stage they were at
    for rater, stage in session.exec(
        select(Passage.rater_id, Passage.stage)
        .join(Rater, col(Rater.id) == col(Passage.rater_id))
        .where(Rater.campaign_id == campaign.id, Rater.role == "panel")
        .order_by(col(Passage.id))
    ):
        left_at[rater] = stage
    at = Counter(r.stage for r in raters)
    stood = [r.stage if r.stage in order else "trials" if r.stage == "full" else left_at.get(r.id) for r in raters]
    behind = Counter(stage for s in stood if s in order for stage in order[: order.index(s)])
    behind["done"] = at["done"]
    order = order[: order.index("trials")] if run.kind.standing else order  # who votes is never past it
    order = [s for s in order if s != "comments" or not run.config.then]  # they are asked for where a sitting ends
    rows = [{"stage": stage, "raters": behind[stage]} for stage in order]
    rows += [{"stage": end, "raters": at[end]} for end in ("screened_out", "withdrawn", "full") if at[end]]
    return rows


def results(session: Session, campaign: Campaign, *, everyone: bool = False) -> dict[str, Any]:
    """The overview, the funnel, the gates and the kind's own tables, JSON-safe.

    Raters whom the quality gates exclude are left out unless ``everyone``; how many each gate excluded is always said.
    """
    run = running(session, campaign)
    given = judgements(session, run.id, everyone=True)
    judged = judge(session, campaign, given)
    excluded = set[str]() if everyone else {j.pseudonym for j in judged if j.use == "fail"}
    answers = [a for a in given if a.rater not in excluded]
    systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id))).all()
    tables = run.kind.analyse(run.config, answers, seed=campaign.seed)
    return {
        **overview(session, campaign),
        "seed": campaign.seed,
        "everyone": everyone,
        "left_out": len(excluded),
        "design": _design(run.config),
        "rule": {"level": 0.95, **asdict(run.config.stop)},
        "looks": [_look(look) for look in interim_looks(session, campaign)],
        "systems": [{"name": s.name, "role": s.role, "voice": json.loads(s.voice)} for s in systems],
        "sounds": sounds_of(session, campaign),
        "questions": [{"id": q.id, "prompt": q.prompt, "low": q.low, "high": q.high} for q in run.config.questions],
        "prompt": run.config.prompt,
        "funnel": funnel(session, campaign),
        "gates": gates(judged),
        "effort": _effort(session, run.id),
        "takes": takes.figures(session, run.id) if run.kind.spoken else [],
        "loudness": _loudness(session, run.id),
        "consistency": consistency_tables(twice(session, run.id), excluded),
        "consensus": _consensus(run, campaign.seed, judged, given),
        "predicted": predicted(session, campaign),
        "tables": tables,
        "second_opinion": second_opinions(run.config.questions, answers, tables),
    }


def analysed(session: Session, campaign: Campaign) -> list[Judged]:
    """The answers that the results are made of: those of raters whom no gate excludes."""
    excluded = left_out(session, campaign)
    return [a for a in judgements(session, campaign.id or 0, everyone=True) if a.rater not in excluded]


def _consensus(run: Running, seed: int, judged: Sequence[Judgement], given: Sequence[Judged]) -> dict[str, Any]:
    """How each rater's answers go with the others', and what the gate changes: a choice made after the answers."""
    raters = [
        {"rater": j.pseudonym, **asdict(j.consensus), "verdict": j.verdicts["consensus"]} for j in judged if j.consensus
    ]
    out = {**rules(run.config.gates), "raters": raters, "failed": 0, "estimates": []}
    whole = {j.pseudonym for j in judged if j.use_but_for_consensus != "fail"}
    kept = {j.pseudonym for j in judged if j.pseudonym in whole and j.verdicts["consensus"] != "fail"}
    if whole == kept:
        return out
    tables = [run.kind.analyse(run.config, [a for a in given if a.rater in some], seed=seed) for some in (whole, kept)]
    return out | {"failed": len(whole) - len(kept), "estimates": with_and_without(*tables)}


def _look(look: Look) -> dict[str, Any]:
    return {**look.model_dump(include={"raters", "why", "at"}), "met": bool(look.met)}


def _design(config: CampaignConfig) -> dict[str, Any]:
    """The settings that a reader of the results has to know."""
    kept = (
        "raters_per_stimulus",
        "trials_per_sitting",
        "pairs",
        "baseline",
        "must_listen",
        "repeats",
        "show_text",
        "text_after",
        "then",
    )
    gates = asdict(config.gates) | {"screening": len(config.gates.screening)}
    texts = {"consent_version": config.texts.consent_version, "language": config.texts.language}
    arena = asdict(config.arena) if kind_of(config.kind).standing else None
    found = {name: getattr(config, name) for name in kept}
    return found | {"gates": gates, "choices": list(config.choices), "arena": arena, **texts}


def _effort(session: Session, campaign_id: int) -> dict[str, Any]:
    """Typical response time and number of plays."""
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
    """What normalising did: the level of all, the widest gains, rates that differ."""
    rows = session.exec(select(Stimulus).where(Stimulus.campaign_id == campaign_id)).all()
    gains = [s.gain_db for s in rows]
    return {
        "lufs": max((s.lufs_after for s in rows), default=None),
        "gain_db": [min(gains), max(gains)] if gains else None,
        "source_rates_hz": sorted({s.source_rate_hz for s in rows}),
    }
