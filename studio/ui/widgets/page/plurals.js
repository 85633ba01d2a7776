// English plurals of counted nouns.

/** `2 words`, `1 word`, `1,200 words`. */
export const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
