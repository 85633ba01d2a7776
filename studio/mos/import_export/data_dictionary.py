"""The data dictionary: meaning of every column of an export."""

from studio.measure.tables import Column

DICTIONARY: tuple[Column, ...] = (
    Column("campaign", "text", "name of the campaign"),
    Column("rater", "text", "pseudonym of the rater, drawn at random; the same only in campaigns of one session"),
    Column("accept", "text", "whether to pay the rater: ok, fail or unknown (unfinished)"),
    Column("use", "text", "whether to analyse the rater: ok, fail or unknown (no gate applied; analysed)"),
    Column(
        "headphones",
        "text",
        "headphone check: ok, fail or unknown (none, or not played); decides only where the campaign requires it",
    ),
    Column(
        "environment",
        "text",
        "environment test of P.808: ok, fail or unknown (none, not played); decides only where it is required",
    ),
    Column("repeats_exact", "number", "share of the rater's answers to repeated trials that were the same both times"),
    Column("repeats_apart", "number", "mean distance of those answers, as a share of the scale; another choice is 1"),
    Column(
        "consensus_r", "number", "correlation of the rater's answers with the mean of the others'; empty without one"
    ),
    Column("consensus_n", "integer", "number of the rater's answers that other raters answered too"),
    Column("trial", "text", "id of the trial"),
    Column("position", "integer", "position of the trial in the rater's session, from 0"),
    Column("role", "text", "test, training, trap, gold or repeat; only test enters the tables"),
    Column(
        "item",
        "text",
        "name of the script; in an arena a hash of the typed words, the same for all raters",
    ),
    Column("tags", "text", "tags of the script, separated by semicolons"),
    Column(
        "question",
        "text",
        "id of the question; 'preference' for a choice between two sounds, 'match' in abx",
    ),
    Column("asked", "integer", "p835: whether the question was asked first (1), second or third; empty in other tests"),
    Column(
        "slot", "integer", "position of the sound in the trial, from 0; in a comparison (ccr) 1; empty for a choice"
    ),
    Column("system", "text", "system that spoke the sound; in a comparison (ccr) the second; empty for a choice"),
    Column("score", "integer", "the score; in a comparison (ccr) the second against the first; empty for a choice"),
    Column("low", "integer", "lowest score of the scale; empty for a choice"),
    Column("high", "integer", "highest score of the scale; empty for a choice"),
    Column("system_a", "text", "system that was shown first (a); empty for the score of one sound"),
    Column("system_b", "text", "system that was shown second (b); empty for the score of one sound"),
    Column("reference", "text", "system played as the reference, or as X (abx); empty without one"),
    Column("outcome", "text", "a, b, tie or both_bad; empty for a score"),
    Column("attempt", "integer", "1 for the first answer to the trial, 2 for another one sent later, and so on"),
    Column("counted", "boolean", "whether this attempt counts; the first one does"),
    Column("response_ms", "number", "time from the trial's display to the answer, in milliseconds"),
    Column("plays", "integer", "how often the sound was played; for a choice or a comparison, both sounds together"),
    Column(
        "heard_ms",
        "number",
        "how long the sound was played, in milliseconds; both together for a choice or a comparison",
    ),
    Column("latency_a_ms", "number", "live: first audible sound of a after the words it needed, in milliseconds"),
    Column("latency_b_ms", "number", "live: the same of b, which got a's keystrokes replayed"),
    Column(
        "late_ms",
        "number",
        "live: delay of b by late keystrokes, in milliseconds",
    ),
    Column("missing", "text", "live: why the rater skipped the trial: late, failed or mute; empty if it was answered"),
    Column("trace_a", "text", "live: address of a's trace in the clip folder"),
    Column("trace_b", "text", "live: address of b's trace"),
    Column("received_at", "text", "when the answer was stored, UTC, ISO 8601"),
    Column("comment", "text", "what the rater wrote beside the answer, as typed"),
)
