// The slider: one number varied, the deals moving along.

import { Refused, ask, byId, latest, newest, render, told } from "./ask.js";
import { typed } from "./form.js";
import { Picker } from "./pick.js";

let picker = null;
let current = null;
let steps = 1;

const slide = () => byId("x-slide");
const question = () => ({ draft: typed(), parameter: picker.parameter(), ...picker.range() });

function mark(step) {
  for (const marker of byId("x-range-curves").querySelectorAll(".marker")) {
    marker.setAttribute("x1", (100 * step) / steps);
    marker.setAttribute("x2", (100 * step) / steps);
  }
}

const move = newest(async (step) => {
  try {
    const answer = await ask("whatif", { ...question(), step });
    current = answer;
    picker.refuse("");
    if (step === null) slide().value = answer.step;
    slide().setAttribute("aria-valuetext", answer.value);
    byId("x-slide-words").textContent = answer.words;
    byId("x-slide-value").textContent = answer.value;
    render(byId("x-moved"), answer.moved);
    mark(answer.step);
    byId("x-keep").disabled = false;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    picker.refuse(error.message);
    byId("x-keep").disabled = true;
  }
});

const draw = latest(async (signal) => {
  const words = byId("x-curves-told");
  try {
    for await (const line of told("curves", question(), signal)) {
      if (line.curves) render(byId("x-range-curves"), line.curves);
      else words.textContent = `Curves over the whole range: ${Math.round((100 * line.done) / line.total)} %`;
    }
    words.textContent = "";
    mark(current ? current.step : 0);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    words.textContent = "";
  }
});

async function anew() {
  await move(null);
  await draw();
}

export function startWhatIf(count, keep) {
  steps = count;
  const start = { kind: "weights", receiver: "0", giver: "1" };
  picker = new Picker(byId("x-slide-pick"), start, anew);
  slide().addEventListener("input", () => move(Number(slide().value)));
  byId("x-keep").addEventListener("click", () => current && keep(current));
}

export async function showWhatIf(answer) {
  await picker.fill(answer);
  await anew();
}
