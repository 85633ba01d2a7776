// Conflicts with another window: reload the document, apply what still fits, and ask about the rest.

/** Reload after a conflict, and reapply the unsaved changes. */
export function merge(annotator, error) {
  return reload(annotator, (unsaved) => restore(annotator, unsaved, error.message), error.message);
}

/** Reload, then call `after` with the unsaved changes; nothing changes on failure. */
export async function reload(annotator, after, why = "") {
  const { saver, panel, source } = annotator;
  try {
    const data = await source.load();
    const { unsaved } = saver;
    saver.drop();
    annotator.loaded(data);
    after(unsaved);
  } catch (error) {
    panel.showState("refused", `${why} ${error.message}`);
  }
}

/** Reapply unsaved changes; ask the user about conflicting ones. */
export function restore(annotator, unsaved, why = "It was changed in another window.") {
  const { document: whole, saver, panel } = annotator;
  const { fitting, conflicting } = whole.divide(unsaved);
  if (fitting.length) whole.act(fitting.map(({ was, ...change }) => change));
  saver.conflicts = conflicting;
  saver.store();
  if (!conflicting.length) return;
  const count = conflicting.length === 1 ? "One of your changes is" : `${conflicting.length} of your changes are`;
  const decide = (isMine) => () => {
    saver.conflicts = [];
    const possible = conflicting.filter(({ op, layer }) => op === "put_layer" || whole.layers.has(layer));
    if (isMine && possible.length) whole.act(possible.map(({ was, ...change }) => change));
    saver.store();
    panel.showState(saver.isSaved ? "saved" : "saving");
  };
  panel.showState("refused", `${why} ${count} not applied. You see the saved version now.`, [
    ["Use mine", decide(true)],
    ["Keep the saved version", decide(false)],
  ]);
}
