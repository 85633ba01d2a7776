// Texts in the page's language: English stays in the source, and the document has the catalogue of another language.

const root = globalThis.document?.documentElement;
const element = globalThis.document?.getElementById?.("texts");
const texts = new Map();
const formats = new Map(); // by decimals: a canvas writes many numbers

/** The tag of the page's language, for numbers. */
export const language = root?.lang || "en";

/** Set the catalogue: an object from English texts to those of the page's language. */
export function setTexts(catalogue) {
  texts.clear();
  for (const [english, text] of Object.entries(catalogue)) texts.set(english, text);
}

/** A text in the page's language with its {placeholders} filled; the English text if the catalogue does not have it. */
export const t = (text = "", values = {}) =>
  (texts.get(text) ?? text).replace(/\{(\w+)\}/g, (placeholder, name) =>
    Object.hasOwn(values, name) ? String(values[name]) : placeholder,
  );

/** A number with so many decimals. */
export function decimal(value, digits) {
  if (!formats.has(digits)) {
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false };
    formats.set(digits, new Intl.NumberFormat(language, options));
  }
  return formats.get(digits).format(value);
}

// Here rather than by the page, since other modules translate their constants when they are loaded.
if (element) setTexts(JSON.parse(element.textContent));
