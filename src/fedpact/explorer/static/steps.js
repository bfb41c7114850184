// Who leaves, step by step.

import { Refused, ask, byId, latest, render } from "./ask.js";
import { typed } from "./form.js";

const PACE = 900;
const HURRY = 6000;

class Player {
  constructor(root, view) {
    this.root = root;
    this.view = view;
    this.steps = [];
    this.at = 0;
    this.timer = null;
    this.slide = root.querySelector("input");
    this.play = root.querySelector("[data-play]");
    for (const button of root.querySelectorAll("[data-step]")) {
      button.addEventListener("click", () => {
        this.stop();
        this.go(this.at + Number(button.dataset.step));
      });
    }
    this.slide.addEventListener("input", () => {
      this.stop();
      this.go(Number(this.slide.value));
    });
    this.play.addEventListener("click", () => (this.timer ? this.stop() : this.start()));
  }

  load(steps) {
    this.stop();
    this.steps = steps;
    this.slide.max = steps.length - 1;
    this.root.hidden = false;
    this.go(0);
  }

  refuse(message) {
    this.stop();
    this.root.hidden = true;
    const text = document.createElement("p");
    text.className = "notice";
    text.textContent = message;
    this.view.replaceChildren(text);
  }

  go(step) {
    this.at = Math.min(Math.max(step, 0), this.steps.length - 1);
    render(this.view, this.steps[this.at]);
    this.slide.value = this.at;
    this.root.querySelector("[data-count]").textContent = `${this.at + 1} of ${this.steps.length}`;
    const [back, next] = this.root.querySelectorAll("[data-step]");
    back.disabled = this.at === 0;
    next.disabled = this.at === this.steps.length - 1;
  }

  start() {
    if (this.at === this.steps.length - 1) this.go(0);
    this.play.textContent = "Pause";
    this.play.setAttribute("aria-pressed", "true");
    const pace = Math.min(PACE, HURRY / this.steps.length);
    this.timer = setInterval(() => {
      this.go(this.at + 1);
      if (this.at === this.steps.length - 1) this.stop();
    }, pace);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
    this.play.setAttribute("aria-pressed", "false");
  }
}

let leaving = null;

export const showLeaving = latest(async (signal) => {
  const choice = { mechanism: byId("x-leave-mechanism").value, leave: byId("x-leave-order").value };
  try {
    leaving.load((await ask("leaving", { draft: typed(), ...choice }, signal)).steps);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    leaving.refuse(error.message);
  }
});

export function startSteps() {
  leaving = new Player(byId("x-leave-player"), byId("x-leave-view"));
  for (const id of ["x-leave-mechanism", "x-leave-order"]) byId(id).addEventListener("change", () => showLeaving());
}
