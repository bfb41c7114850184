// A deal from a file, held against the federation on the page, and again whenever that has changed.

import { Refused, ask, byId, newest, render } from "./ask.js";
import { typed } from "./form.js";

let opened = null;

function show(html) {
  byId("x-opened").hidden = false;
  render(byId("x-opened-view"), html);
}

function refuse(message) {
  show("");
  const text = document.createElement("p");
  text.className = "refused";
  text.setAttribute("role", "alert");
  text.textContent = message;
  byId("x-opened-view").append(text);
}

export const checkOpened = newest(async () => {
  if (!opened) return;
  const file = opened;
  try {
    const answer = await ask("check", { draft: typed(), ...file });
    if (opened === file) show(answer.check);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (opened === file) refuse(error.message);
  }
});

export function openDeal(file) {
  opened = file;
  return checkOpened();
}

export function startOpened() {
  byId("x-opened-close").addEventListener("click", () => {
    opened = null;
    byId("x-opened").hidden = true;
    byId("x-opened-view").replaceChildren();
    byId("x-file").focus();
  });
}
