// One animation frame of the Live page: the words, the picture and the race follow the player.

import { t } from "../page/translate.js";

export function drawFrame(live, nowMs) {
  const position = live.player.clock?.position();
  const isOurs = position && live.play && position.play === live.play.play;
  const sample = isOurs ? position.sample + (live.play.from ?? 0) : 0;
  if (isOurs && !live.isPlayedOut) live.caption.update(sample, nowMs);
  else if (live.caption.stale) live.caption.draw();
  if (isOurs && live.phase === "idle" && !position.playing && !live.isPlayedOut) {
    live.isPlayedOut = true;
    live.caption.finish(nowMs);
  }
  if (isOurs) live.chat.tick(sample);
  live.scope.draw(sample, live.phase !== "idle", nowMs);
  live.race.tick();
  if (live.caption.isNew) {
    live.caption.isNew = false;
    live.highlights.show(live.caption);
  }
  if (live.isMoving !== (isOurs && position.playing)) {
    live.isMoving = isOurs && position.playing;
    if (live.isMoving && live.phase !== "replay") live.early.offer();
    live.show();
  }
}

/** Browsers mute a page until the first gesture. */
export function checkSound({ phase, player, status }) {
  const isMute = phase === "open" && !player.isAwake && !player.isPaused;
  if (isMute) status.show("warn", t("Sound is off. Click anywhere, or press a key, to turn it on."), "mute");
  else status.drop("mute");
}
