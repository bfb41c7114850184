// All mechanisms against what they keep, worked out when it is looked at: that takes some seconds.

import { Refused, ask, byId, latest, render } from "./ask.js";
import { typed } from "./form.js";

function say(message, kind) {
  const text = document.createElement("p");
  text.className = kind;
  text.textContent = message;
  byId("x-mechanisms-view").replaceChildren(text);
}

export const showMechanisms = latest(async (signal) => {
  say("Solving all mechanisms, and trying who would lie, leave or pose as two…", "note");
  try {
    const answer = await ask("mechanisms", { draft: typed() }, signal);
    render(byId("x-mechanisms-view"), answer.properties);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    say(error.message, "notice");
  }
});
