"""Design and analysis of a test as text, so that it can be reproduced."""

from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import number
from studio.mos.report.pairs import post_screening


def design_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """Rows (setting, value) on how the test was run and analysed."""
    design, level = results["design"], f"{100 * results['rule']['level']:g}%"
    asked = f"{design['raters_per_stimulus']} raters for each unit, {design['trials_per_sitting']} trials per session"
    if arena := design.get("arena"):
        asked = (
            f"none (open-ended); per rater {arena['per_day']} battles a day and {arena['per_pair']} on a pair; "
            f"{arena['explore']:.0%} of the pairs drawn at random, the others by the expected gain in precision"
        )
    set_to = {k: v for k, v in design["gates"].items() if design["gates"].get("min_consensus") or "consensus" not in k}
    on = {name: value for name, value in set_to.items() if value not in (0, False, "none")}
    gates = ", ".join(name if value is True else f"{name} {value}" for name, value in on.items())
    loud = results["loudness"]
    rows = [
        ["Kind of test", results["kind"]],
        ["Seed of the assignment and of the posterior", str(results["seed"])],
        ["Quotas", asked],
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
        rows += [["Loudness", f"{number(loud['lufs'], 1)} LUFS (BS.1770), gains {low} to {high} dB"], ["Rates", rates]]
        if len(loud["source_rates_hz"]) > 1:
            rows.append(["Caution", "the systems' sampling rates differ, which may be audible"])
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
        rows.append(
            [
                "Post-screening",
                f"{post_screening(screen)}; the means of all raters are also given",
            ]
        )
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
