// Choosing a number of the federation and a range for it.

import { Refused, ask } from "./ask.js";
import { typed } from "./form.js";

const EVERYBODY = "everybody";

function fill(select, options) {
  const before = select.value;
  select.replaceChildren(
    ...options.map(([value, label]) => {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = label;
      return option;
    }),
  );
  if (options.some(([value]) => value === before)) select.value = before;
}

export function fillAgents(select, agents) {
  fill(select, agents.map((name, place) => [String(place), name]));
}

export class Picker {
  // `start` is what to show first: a kind, and whose.
  constructor(root, start, changed) {
    this.root = root;
    this.start = start;
    this.changed = changed;
    this.filled = false;
    for (const select of root.querySelectorAll("select")) {
      select.addEventListener("change", async () => {
        this.arrange();
        await this.suggest();
        this.changed();
      });
    }
    for (const end of ["low", "high"]) this.part(end).addEventListener("input", () => this.changed());
  }

  part(name) {
    return this.root.querySelector(`[data-pick="${name}"]`);
  }

  // Kinds and names as the federation has them now.
  async fill({ agents, kinds }) {
    fill(this.part("kind"), Object.entries(kinds));
    const names = [...agents.map((name, place) => [String(place), name]), [EVERYBODY, "everybody"]];
    for (const key of ["receiver", "giver", "agent"]) fill(this.part(key), names);
    if (!this.filled) {
      const wanted = kinds[this.start.kind] ? this.start : { kind: Object.keys(kinds)[0], agent: "0" };
      for (const [key, value] of Object.entries(wanted)) {
        const select = this.part(key);
        if ([...select.options].some((option) => option.value === value)) select.value = value;
      }
    }
    this.arrange();
    if (!this.filled || !this.part("low").value) await this.suggest();
    this.filled = true;
  }

  arrange() {
    const weights = this.part("kind").value === "weights";
    for (const label of this.root.querySelectorAll("[data-place]")) {
      label.hidden = (label.dataset.place === "agent") === weights;
    }
  }

  async suggest() {
    try {
      const range = await ask("range", { draft: typed(), parameter: this.parameter() });
      this.part("low").value = range.low;
      this.part("high").value = range.high;
      this.refuse("");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.refuse(error.message);
    }
  }

  parameter() {
    const kind = this.part("kind").value;
    const keys = kind === "weights" ? ["receiver", "giver"] : ["agent"];
    const places = keys.map((key) => [key, this.part(key).value]);
    return {
      kind,
      ...Object.fromEntries(places.map(([key, value]) => [key, value === EVERYBODY ? null : Number(value)])),
    };
  }

  range() {
    return { low: this.part("low").value, high: this.part("high").value };
  }

  // An error that begins with the name of an end belongs to its field.
  refuse(message) {
    this.part("error").textContent = message;
    for (const end of ["low", "high"]) {
      if (message.startsWith(`${end} `)) this.part(end).setAttribute("aria-invalid", "true");
      else this.part(end).removeAttribute("aria-invalid");
    }
  }
}
