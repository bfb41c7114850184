// The page put together: tabs, loading, undoing, and who is told when the deal has changed.

import { Refused, ask, byId, render, save, setNote } from "./ask.js";
import { dealNow, dealSoon, onDeal } from "./deal.js";
import { focusField, setDraft, typed, watchForm } from "./form.js";
import { showMap, startMap } from "./map.js";
import { showLeaving, startSteps } from "./steps.js";
import { showWhatIf, startWhatIf } from "./whatif.js";

const MOST_UNDONE = 50;
const start = JSON.parse(byId("x-start").textContent);
const kept = `fedpact-${start.token}`;
const past = keptBefore(`${kept}-past`) || [];
let dealt = null;

// What a tab shows is worked out when it is looked at, and again when the deal has changed.
const shows = { whatif: showWhatIf, map: showMap, leaving: showLeaving };
const upToDate = new Set();

async function refresh(tab) {
  if (!dealt || upToDate.has(tab) || !shows[tab]) return;
  upToDate.add(tab);
  await shows[tab](dealt);
}

function keptBefore(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null; // nothing usable was kept
  }
}

function keep() {
  sessionStorage.setItem(kept, JSON.stringify(typed()));
}

// What can be undone is kept with what is typed; where there is little room, the oldest go.
function keepPast() {
  byId("x-undo").disabled = !past.length;
  for (;;) {
    try {
      sessionStorage.setItem(`${kept}-past`, JSON.stringify(past));
      return;
    } catch {
      if (!past.length) return;
      past.splice(0, Math.ceil(past.length / 2));
    }
  }
}

function remember() {
  past.push(JSON.parse(JSON.stringify(typed())));
  if (past.length > MOST_UNDONE) past.shift();
  keepPast();
}

function loaded(answer) {
  setDraft(answer.draft);
  render(byId("x-form-place"), answer.form);
  keep();
  return dealNow();
}

// Whatever is refused leaves the form as it was.
async function tried(work) {
  try {
    setNote("");
    await work();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    setNote(error.message);
  }
}

const load = (name, question) =>
  tried(async () => {
    const answer = await ask(name, question);
    remember();
    await loaded(answer);
    if (answer.notes?.length) setNote(answer.notes.join(" "));
  });

const reform = (question) =>
  tried(async () => {
    const answer = await ask("form", { ...question, draft: question.draft || typed() });
    await loaded(answer);
  });

const paste = (field, text) =>
  tried(async () => {
    const answer = await ask("paste", { draft: typed(), field, text });
    remember();
    const dealing = loaded(answer);
    focusField(field);
    if (answer.notes.length) setNote(answer.notes.join(" "));
    await dealing;
  });

function choose(tab, { focus = false } = {}) {
  document.body.dataset.tab = tab;
  for (const button of document.querySelectorAll("[role=tab]")) {
    const chosen = button.dataset.tab === tab;
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) button.focus();
    byId(`x-${button.dataset.tab}`).hidden = !chosen && button.dataset.tab !== "federation";
  }
  return refresh(tab);
}

function startTabs() {
  const bar = document.querySelector("[role=tablist]");
  bar.addEventListener("click", (event) => {
    const button = event.target.closest("[role=tab]");
    if (button) choose(button.dataset.tab);
  });
  bar.addEventListener("keydown", (event) => {
    const seen = [...bar.children].filter((button) => button.offsetParent !== null);
    const here = seen.indexOf(document.activeElement);
    const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: seen.length - 1 }[event.key];
    if (next === undefined || here < 0) return;
    event.preventDefault();
    choose(seen[(next + seen.length) % seen.length].dataset.tab, { focus: true });
  });
  // On a wide page the federation is always at the side, so its tab is not needed.
  matchMedia("(min-width: 64rem)").addEventListener("change", (wide) => {
    if (wide.matches && document.body.dataset.tab === "federation") choose("deal");
  });
}

function startLoading() {
  byId("x-example").addEventListener("change", async (event) => {
    const name = event.target.value;
    event.target.value = "";
    if (name) await load("example", { name });
  });
  byId("x-file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) await load("upload", { name: file.name, text: await file.text(), draft: typed() });
    event.target.value = "";
  });
  byId("x-undo").addEventListener("click", () => {
    const draft = past.pop();
    keepPast();
    if (draft) reform({ draft });
  });
}

function startEditing() {
  let editing = null;
  const changed = () => {
    keep();
    dealSoon();
  };
  const place = byId("x-form-place");
  place.addEventListener("focusin", (event) => {
    if (event.target.matches("[data-field]")) editing = { field: event.target, text: event.target.value, noted: false };
  });
  // One undo for each field that is edited, back to what it held before.
  place.addEventListener("beforeinput", (event) => {
    if (editing && event.target === editing.field && !editing.noted) {
      editing.noted = true;
      remember();
    }
  });
  watchForm(changed, paste);
  place.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.id === "x-add") {
      remember();
      reform({ do: "add" });
    } else if (button.dataset.remove) {
      remember();
      reform({ do: "remove", agent: Number(button.dataset.remove) });
    }
  });
  place.addEventListener("change", (event) => {
    if (event.target.matches("#x-family, #x-own-curves, #x-models")) reform({ do: "show" });
  });
}

function startFiles() {
  document.querySelector(".files").addEventListener("click", async (event) => {
    const file = event.target.closest("button")?.dataset.file;
    if (!file) return;
    const told = byId("x-files-told");
    told.textContent = `Making ${file}…`;
    await tried(async () => {
      await save("file", { draft: typed(), file }, file);
      told.textContent = `${file} is with your downloads.`;
    });
    if (told.textContent.endsWith("…")) told.textContent = "";
  });
}

function startDraft() {
  setDraft(start.draft);
  byId("x-undo").disabled = !past.length;
  const before = keptBefore(kept);
  if (before) return reform({ do: "show", draft: before });
  return dealNow();
}

startTabs();
startLoading();
startEditing();
startFiles();
startMap();
startSteps();
startWhatIf(start.steps, async (answer) => {
  remember();
  await reform({ do: "show", draft: answer.kept });
});
onDeal((answer) => {
  dealt = answer;
  upToDate.clear();
  return refresh(document.body.dataset.tab);
});
if (start.notes.length) setNote(start.notes.join(" "));
startDraft();
