"""How a test was designed and analysed, in words: the part of a report that lets somebody repeat it."""

from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import number
from studio.mos.report.pairs import post_screening


def design_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """What a reader has to know about how the test was run and analysed: (setting, value)."""
    design, level = results["design"], f"{100 * results['rule']['level']:g}%"
    asked = f"{design['raters_per_stimulus']} raters for each unit, {design['trials_per_sitting']} screens a sitting"
    if arena := design.get("arena"):
        asked = (
            f"none, it has no end; of each rater {arena['per_day']} battles a day and {arena['per_pair']} on a pair; "
            f"{arena['explore']:.0%} of the pairs drawn at random, the others by what sharpens the ladder most"
        )
    set_to = {k: v for k, v in design["gates"].items() if design["gates"].get("min_consensus") or "consensus" not in k}
    on = {name: value for name, value in set_to.items() if value not in (0, False, "none")}
    gates = ", ".join(name if value is True else f"{name} {value}" for name, value in on.items())
    loud = results["loudness"]
    rows = [
        ["Kind of test", results["kind"]],
        ["Seed of the assignment and of the posterior", str(results["seed"])],
        ["Quotas", asked],
        ["Repeated screens", f"{design['repeats']} a sitting; they enter no mean"],
        ["Must be heard", f"{design['must_listen']:.0%} of each sound before the answer"],
        ["Text shown", "yes" if design["show_text"] else "no"],
        ["Gates", gates or "none"],
        ["Consent", f"version {design['consent_version']}, language {design['language']}"],
    ]
    rows += [["Goes on with", f"{design['then']}, in the same sitting"]] if design["then"] else []
    if {"choices", "comparisons", "identity"} & set(results["tables"]):
        against = f" {design['baseline']}" if design["pairs"] == "baseline" else ""
        rows.append(["Pairs", f"{design['pairs']}{against}"])
        rows += [["May be answered", ", ".join(design["choices"])]] if design["choices"] else []
    if loud["gain_db"] is not None:
        low, high = (number(g, 1) for g in loud["gain_db"])
        rates = ", ".join(f"{r:,} Hz" for r in loud["source_rates_hz"])
        rows += [["Loudness", f"{number(loud['lufs'], 1)} LUFS (BS.1770), gains {low} to {high} dB"], ["Rates", rates]]
        if len(loud["source_rates_hz"]) > 1:
            rows.append(["Caution", "the systems' sampling rates differ, which raters may hear"])
    rows.append(["Level of every interval", level])
    rows += [[f"Look at {seen['raters']} raters", seen["why"]] for seen in results["looks"]]
    return rows + _methods(results)


def _methods(results: Mapping[str, Any]) -> list[list[str]]:
    rows: list[list[str]] = []
    if results["questions"]:
        rows.append(
            [
                "Interval of a mean",
                "clustered by rater and script (Cameron, Gelbach & Miller 2011), t with min(G) - 1 degrees of freedom. "
                "Raters hear many scripts and scripts are heard by many raters, so ratings are not independent: in "
                "simulation the plain interval covers far less than it says, this one about 95%",
            ]
        )
    if "comparisons" in results["tables"]:
        rows.append(
            [
                "Sign of a comparison",
                "raters said how the second sound compares with the first; who came first was balanced and is stored, "
                "and the sign is turned where it was the other way round",
            ]
        )
    if screen := results["tables"].get("post_screen"):
        rows.append(
            [
                "Post-screening",
                f"{post_screening(screen)}; the means of everybody stand beside",
            ]
        )
    if "identity" in results["tables"]:
        rows.append(
            [
                "Test of X",
                "exact binomial, one-sided, against one half, answers as independent; the interval is by rater and "
                "script, for answers of one rater, and on one script, hang together",
            ]
        )
    choices = results["tables"].get("choices", {"n": 0})
    if choices["n"]:
        constants = choices["constants"]
        rows += [
            [
                "Interval of a share and of Elo",
                f"{choices['elo']['gamma']['interval']}. Votes of one rater hang together, and so do votes on one "
                "script, which may favour a system: neither are a thousand votes a thousand answers, nor are ten "
                "scripts all scripts. Of Elo: from the influence of each vote (sandwich), centred",
            ],
            [
                "Elo",
                "E = c + 400 log10 p; prior Gamma(shape a0, rate b0) on p, posterior mean (Caron & Doucet 2010), "
                f"converged; a0 = {constants['a0']:g}, b0 = {constants['b0']:g}, c = {constants['c']:g}",
            ],
        ]
    return rows
