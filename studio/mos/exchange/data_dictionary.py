"""The data dictionary: what every column of an export means."""

from studio.measure.tables.columns import Column

DICTIONARY: tuple[Column, ...] = (
    Column("campaign", "text", "name of the campaign"),
    Column("rater", "text", "pseudonym of the rater, drawn at random; the same in campaigns of one sitting only"),
    Column("accept", "text", "whether to pay the rater: ok, fail or unknown (still at it)"),
    Column("use", "text", "whether to analyse the rater: ok, fail or unknown (no gate could judge; analysed)"),
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
    Column("repeats_exact", "number", "share of the rater's marks on repeated screens that were the same both times"),
    Column("repeats_apart", "number", "mean distance of those marks, as a share of the scale; another choice is 1"),
    Column(
        "consensus_r", "number", "correlation of the rater's answers with the mean of the others'; empty without one"
    ),
    Column("consensus_n", "integer", "how many of the rater's answers had others' beside them"),
    Column("trial", "text", "id of the screen"),
    Column("position", "integer", "place of the screen in the rater's sitting, from 0"),
    Column("role", "text", "test, training, trap, gold or repeat; only test enters the tables"),
    Column(
        "item",
        "text",
        "name of the script that was heard; in an arena what stands for the words that were typed, whoever typed them",
    ),
    Column("tags", "text", "tags of the script, divided by semicolons"),
    Column(
        "question",
        "text",
        "id of the question; 'preference' for a choice between two sounds, 'match' in abx",
    ),
    Column("asked", "integer", "p835: whether the question was asked first (1), second or third; empty in other tests"),
    Column("slot", "integer", "place of the sound on the screen, from 0; in a comparison (ccr) 1; empty for a choice"),
    Column("system", "text", "system that spoke the sound; in a comparison (ccr) the second; empty for a choice"),
    Column("score", "integer", "the score; in a comparison (ccr) the second against the first; empty for a choice"),
    Column("low", "integer", "lowest score of the scale; empty for a choice"),
    Column("high", "integer", "highest score of the scale; empty for a choice"),
    Column("system_a", "text", "system that was shown first (a); empty for the score of one sound"),
    Column("system_b", "text", "system that was shown second (b); empty for the score of one sound"),
    Column("reference", "text", "system that was heard as the reference, or as X (abx); empty without one"),
    Column("outcome", "text", "a, b, tie or both_bad; empty for a score"),
    Column("attempt", "integer", "1 for the first answer to the screen, 2 for another one sent later, and so on"),
    Column("counted", "boolean", "whether this attempt counts; the first one does"),
    Column("response_ms", "number", "time from the screen's display to the answer, in milliseconds"),
    Column("plays", "integer", "how often the sound was played; for a choice or a comparison, both sounds together"),
    Column(
        "heard_ms",
        "number",
        "how much of the sound was heard, in milliseconds; both together for a choice or a comparison",
    ),
    Column("latency_a_ms", "number", "live: first audible sound of a after the words it needed, in milliseconds"),
    Column("latency_b_ms", "number", "live: the same of b, which heard a's typing again"),
    Column(
        "late_ms",
        "number",
        "live: by how much late keys told on b, which waited for them or took a word without them, in milliseconds",
    ),
    Column(
        "missing", "text", "live: why the rater skipped the screen: late, failed or mute; empty where it was answered"
    ),
    Column("trace_a", "text", "live: address of a's trace in the clip folder"),
    Column("trace_b", "text", "live: address of b's trace"),
    Column("received_at", "text", "when the answer was kept, UTC, ISO 8601"),
    Column("comment", "text", "what the rater wrote beside the answer, as typed"),
)
