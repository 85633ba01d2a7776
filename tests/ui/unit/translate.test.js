// Texts in the page's language.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { decimal, language, setTexts, t } from "../../../studio/ui/widgets/page/translate.js";

afterEach(() => setTexts({}));

test("without a catalogue a text stays English, with its places filled", () => {
  assert.equal(t("Speak"), "Speak");
  assert.equal(t("{count} of {of}", { count: 0, of: "a {count}" }), "0 of a {count}");
  assert.equal(t(undefined), "");
  assert.equal(language, "en");
});

test("a catalogue replaces whole texts, and its places may stand elsewhere", () => {
  setTexts({ Speak: "Sprechen", "{first}, then {second}": "{second} nach {first}" });
  assert.equal(t("Speak"), "Sprechen");
  assert.equal(t("Speak the rest"), "Speak the rest");
  assert.equal(t("{first}, then {second}", { first: 1, second: "2" }), "2 nach 1");
  setTexts({ Stop: "Stopp" });
  assert.equal(t("Speak"), "Speak", "another catalogue replaces the first");
});

test("names of an object's own properties are no texts", () => {
  setTexts({ Speak: "Sprechen" });
  for (const name of ["constructor", "__proto__", "toString"]) assert.equal(t(name), name);
});

test("a place without a value stays, so that a server's message is shown as it is", () => {
  assert.equal(t("no field {x} and {constructor}"), "no field {x} and {constructor}");
});

test("numbers have the wanted decimals and no groups", () => {
  assert.equal(decimal(1234.56, 1), "1234.6");
  assert.equal(decimal(2, 2), "2.00");
});
