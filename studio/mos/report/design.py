"""Design and conduct of a test: settings, raters, consistency, agreement and gates, as text and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.core.plurals import plural
from studio.mos.kinds.registry import KINDS
from studio.mos.report.cells import NONE, ReportTable, number, percent, with_interval
from studio.mos.report.pairs import post_screening


def design_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """Rows (setting, value) on how the test was run and analysed."""
    design, level = results["design"], f"{100 * results['rule']['level']:g}%"
    if design is None:  # of a file
        rows = [["Kind of test", _kind(results["kind"])], ["Seed of the posterior", str(results["seed"])]]
        return [*rows, ["Level of every interval", level], *_methods(results)]
    raters = design["raters_per_stimulus"]
    quota = f"{raters}{' usable' if design['replace_excluded'] else ''} {plural(raters, 'rater')} for each unit"
    quotas = f"{quota}, {design['trials_per_sitting']} trials per session"
    if arena := design.get("arena"):
        quotas = (
            f"none (open-ended); per rater {arena['per_day']} battles a day and {arena['per_pair']} on a pair; "
            f"{arena['explore']:.0%} of the pairs drawn at random, the others by the expected gain in precision"
        )
    set_to = {k: v for k, v in design["gates"].items() if design["gates"].get("min_consensus") or "consensus" not in k}
    on = {name: value for name, value in set_to.items() if value not in (0, False, "none")}
    gates = ", ".join(name if value is True else f"{name} {value}" for name, value in on.items())
    loud = results["loudness"]
    rows = [
        ["Kind of test", _kind(results["kind"])],
        ["Seed of the assignment and of the posterior", str(results["seed"])],
        ["Quotas", quotas],
        ["Repeated trials", f"{design['repeats']} per session; not part of any mean"],
        ["Required listening", f"{design['must_listen']:.0%} of each stimulus before the answer"],
        ["Text shown", "yes" if design["show_text"] else "no"],
        ["Gates", gates or "none"],
        ["Consent", f"version {design['consent_version']}, language {design['language']}"],
    ]
    rows += [["Continues with", f"{design['then']}, in the same session"]] if design["then"] else []
    if {"choices", "comparisons", "identity"} & set(results["tables"]):
        against = f" {design['baseline']}" if design["pairs"] == "baseline" else ""
        rows.append(["Pairs", f"{design['pairs']}{against}"])
        rows += [["Possible answers", ", ".join(design["choices"])]] if design["choices"] else []
    if loud["gain_db"] is not None:
        low, high = (number(g, 1) for g in loud["gain_db"])
        rates = ", ".join(f"{r:,} Hz" for r in loud["source_rates_hz"])
        lufs = f"{number(loud['lufs'], 1)} LUFS (BS.1770)"
        if design["levels"] != "integrated":
            lufs = f"{_LEVELS[design['levels']]}; {number(loud['lowest_lufs'], 1)} to {lufs}"
        rows += [["Loudness", f"{lufs}, gains {low} to {high} dB"], ["Rates", rates]]
        if len(loud["source_rates_hz"]) > 1:
            rows.append(["Caution", "the systems' sampling rates differ, which may be audible"])
    rows.append(["Level of every interval", level])
    declared = {name: design["margins"][name] for name in ("score", "share") if design["margins"][name] is not None}
    rows += [[f"Margin of a {name}", f"{margin:g}, declared in the settings"] for name, margin in declared.items()]
    rows += [[f"Look at {seen['raters']} raters", seen["why"]] for seen in results["looks"]]
    return rows + _methods(results)


_LEVELS = {"active": "one active speech level (P.56)", "keep": "as in the files"}


def _methods(results: Mapping[str, Any]) -> list[list[str]]:
    rows: list[list[str]] = []
    if results["questions"]:
        rows.append(
            [
                "Interval of a mean",
                "clustered by rater and script (Cameron, Gelbach & Miller 2011), t by effective numbers of both. "
                "Ratings with crossed raters and scripts are not independent: in simulation the plain interval has far "
                "less than nominal coverage, this one about 95%",
            ]
        )
    if "comparisons" in results["tables"]:
        rows.append(
            [
                "Sign of a comparison",
                "raters score the second stimulus relative to the first; the order is balanced and stored, and signs "
                "are corrected for it",
            ]
        )
    if screen := results["tables"].get("post_screen"):
        rows.append(["Post-screening", f"{post_screening(screen)}; the means of all raters are also given"])
    if "identity" in results["tables"]:
        rows.append(
            [
                "Test of X",
                "exact binomial, one-sided, against one half, answers as independent; the interval is clustered by "
                "rater and script",
            ]
        )
    choices = results["tables"].get("choices", {"n": 0})
    if choices["n"]:
        constants = choices["constants"]
        rows += [
            [
                "Interval of a share and of Elo",
                f"{choices['elo']['gamma']['interval']}. Votes of one rater, and votes on one script, are correlated. "
                "For Elo: sandwich estimator from the influence of each vote, centred",
            ],
            [
                "Elo",
                "E = c + 400 log10 p; prior Gamma(shape a0, rate b0) on p, posterior mean (Caron & Doucet 2010), "
                f"converged; a0 = {constants['a0']:g}, b0 = {constants['b0']:g}, c = {constants['c']:g}",
            ],
        ]
    return rows


STAGE_LABELS = {
    "consent": "agreed",
    "screening": "passed the screening",
    "instructions": "read the instructions",
    "headphones": "completed the headphone check",
    "environment": "completed the environment test",
    "level": "set the level",
    "trials": "answered every trial",
    "comments": "completed the comments",
    "done": "reached the last page",
    "screened_out": "screened out",
    "withdrawn": "withdrew",
    "full": "came when the quota was full",
}
GATE_LABELS = {
    "traps": "traps answered correctly",
    "golds": "known answers within one step",
    "variance": "ratings vary",
    "repeats": "repeated trials consistent",
    "sides": "both sides of pairs chosen",
    "pace": "time to hear the stimuli",
    "headphones": "headphone check",
    "environment": "environment test (P.808)",
    "consensus": "agreement with the others",
    "accept": "accept: pay the rater",
    "use": "use: analyse the answers",
}


def take_table(takes: Sequence[Mapping[str, Any]]) -> ReportTable:
    """Latency of each voice while raters typed."""
    columns = ["System", "first sound, ms", "95th percentile, ms", "latest key, ms", "takes"]
    rows = [
        [t["system"], *(number(t[name], 1) for name in ("latency_ms", "latency_p95_ms", "late_ms")), str(t["takes"])]
        for t in takes
    ]
    note = (
        "First sound: from the last word that the first segment needed to the first audible sample, median. "
        "Latest key: largest delay of a key when the typing was replayed to the second voice."
    )
    return ReportTable("First sound while typing", columns, rows, [note])


def consistency_tables(consistency: Mapping[str, Any]) -> list[ReportTable]:
    """Agreement of repeated answers, by question and by rater."""

    def cells(row: Mapping[str, Any]) -> list[str]:
        shares = [percent(row["exact"]), number(row["steps"], 2), percent(row["apart"]), number(row["r"], 2)]
        return [*shares, str(row["n"])]

    columns = ["identical", "mean difference, steps", "of the scale", "correlation", "repeated answers"]
    note = "The same trial, presented twice to the same rater. Of the scale: 100% for a different choice."
    questions = [[name, *cells(row)] for name, row in consistency["questions"].items()]
    raters = [[row["rater"], *cells(row)] for row in consistency["raters"]]
    return [
        ReportTable("Self-consistency of raters", ["Question", *columns], questions, [note]),
        ReportTable("Self-consistency of each rater", ["Rater", *columns], raters, [note]),
    ]


def consensus_table(consensus: Mapping[str, Any]) -> ReportTable:
    """Agreement of each rater with the others."""
    rows = [
        [r["rater"], number(r["r"], 3), str(r["n"]), number(r["others"], 1), r["verdict"]] for r in consensus["raters"]
    ]
    of = "stimulus" if consensus["by"] == "stimulus" else "system"
    note = (
        f"Pearson's correlation of a rater's answers with the mean of the others' for the same {of} (leave-one-out), "
        "centred per question (preferences are not centred). The others are all raters that no other gate excludes."
    )
    columns = ["Rater", "r", "answers", "others per answer", "verdict"]
    return ReportTable("Agreement of each rater with the others", columns, rows, [note])


def post_hoc_tables(consensus: Mapping[str, Any]) -> list[ReportTable]:
    """Effect of excluding raters below the minimum agreement; no table if there are none."""
    if not consensus["failed"]:
        return []
    which_tables = "The other tables are without them" if consensus["required"] else "The other tables are with them"
    rows: list[list[str]] = []
    for estimate in consensus["estimates"]:
        remaining = estimate["kept"]
        without = [NONE, "0"] if remaining is None else [with_interval(remaining, 3), str(remaining["n"])]
        rows.append([estimate["name"], with_interval(estimate["everybody"], 3), *without])
    note = (
        f"Raters whose answers correlate less than {consensus['minimum']:g} with the mean of the others', of "
        f"{consensus['answers']} answers or more: {consensus['failed']}. This is a post-hoc exclusion: it depends on "
        f"the analysed answers, and may widen differences and narrow intervals. {which_tables}."
    )
    columns = ["Estimate", "with them", "without them", "answers without"]
    return [ReportTable("With and without raters who disagree with the others", columns, rows, [note])]


def gate_table(caption: str, gates: Mapping[str, Mapping[str, int]], design: Mapping[str, Any]) -> ReportTable:
    """Verdicts of each gate and of the two decisions: numbers of raters that pass, fail, and are unknown."""
    rows = [
        [GATE_LABELS[gate], *(str(gates[gate].get(verdict, 0)) for verdict in ("ok", "fail", "unknown"))]
        for gate in GATE_LABELS
    ]
    notes = ["Unknown excludes no rater: the check did not run, or not yet."]
    if design["gates"]["headphones"] != "none" and not design["gates"]["headphones_required"]:
        notes.append("The headphone check is informative: this campaign excludes no rater for it.")
    if design["gates"]["environment"] and not design["gates"]["environment_required"]:
        notes.append("The environment test is informative: this campaign excludes no rater for it.")
    if design["gates"]["min_consensus"] and not design["gates"]["consensus_required"]:
        notes.append("Agreement with the others is informative: this campaign excludes no rater for it.")
    return ReportTable(caption, ["Check", "ok", "fail", "unknown"], rows, notes)


def _kind(name: str) -> str:
    """A kind with its name in the settings."""
    return f"{KINDS[name].title} ({name})" if name in KINDS else name
