// The deal: asked for after every change; the last right one stays while something is wrong.

import { Refused, ask, byId, newest, render, setNote } from "./ask.js";
import { dress, markErrors, typed } from "./form.js";

const PATIENCE = 120;
const SLOW = 400;
let waiting = null;
let troubled = false;
let heard = () => {};

export function onDeal(listener) {
  heard = listener;
}

function status(text, kind = "") {
  const place = byId("x-status");
  place.textContent = text;
  place.dataset.kind = kind;
}

function opened() {
  return new Set([...byId("x-deal-view").querySelectorAll("details[open]")].map(path));
}

function path(details) {
  const names = [];
  for (let each = details; each; each = each.parentElement?.closest("details")) {
    names.unshift(each.querySelector("summary").textContent.replace(/:.*$/, ""));
  }
  return names.join(" > ");
}

function show(answer) {
  const view = byId("x-deal-view");
  const open = opened();
  render(view, answer.deal);
  for (const details of view.querySelectorAll("details")) details.open = details.open || open.has(path(details));
  render(byId("x-curve"), answer.curve);
  // Maps and departures are of the recommended deal until somebody chooses another.
  for (const id of ["x-map-mechanism", "x-leave-mechanism"]) {
    const select = byId(id);
    if (select.dataset.chosen || ![...select.options].some((each) => each.value === answer.recommended)) continue;
    select.value = answer.recommended;
    select.onchange = () => (select.dataset.chosen = "yes");
  }
}

const asked = newest(async () => {
  const slow = setTimeout(() => status("Working…", "busy"), SLOW);
  const view = byId("x-deal-view");
  try {
    const began = performance.now();
    const answer = await ask("deal", { draft: typed() });
    markErrors(answer.errors);
    const count = answer.errors.length;
    view.classList.toggle("stale", !answer.deal);
    if (answer.problem || troubled) setNote(answer.problem);
    troubled = Boolean(answer.problem);
    if (!answer.deal) {
      const which = count === 1 ? "One field is" : `${count} fields are`;
      const what = troubled ? "There is no deal for this federation." : `${which} not right yet.`;
      status(`${what} The last deal stays in view.`, "wrong");
    } else {
      show(answer);
      status(`Up to date, in ${Math.max(1, Math.round(performance.now() - began))} ms`, "done");
      await heard(answer);
    }
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    setNote(error.message);
    status("Not up to date", "wrong");
  } finally {
    clearTimeout(slow);
  }
});

export function dealNow() {
  clearTimeout(waiting);
  dress();
  return asked();
}

export function dealSoon() {
  clearTimeout(waiting);
  dress();
  waiting = setTimeout(asked, PATIENCE);
}
