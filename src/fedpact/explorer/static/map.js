// The heat map: drawn with progress, read with the pointer or the arrow keys.

import { Refused, byId, render, told } from "./ask.js";
import { typed } from "./form.js";
import { Picker, fillAgents } from "./pick.js";

let up = null;
let right = null;
let numbers = null;
let cursor = [0, 0];
let running = null;
let drawn = null;
let dealt = null;

const ONE_MEMBER = new Set(["ir_gaps", "payments", "contributions", "utilities"]);

function question() {
  return {
    draft: typed(),
    up: { parameter: up.parameter(), ...up.range() },
    right: { parameter: right.parameter(), ...right.range() },
    metric: byId("x-map-metric").value,
    mechanism: byId("x-map-mechanism").value,
    agent: Number(byId("x-map-agent").value || 0),
    count: Number(byId("x-map-count").value),
  };
}

function refuse(message) {
  const side = /^(up|right): /.exec(message);
  up.refuse(side?.[1] === "up" ? message.slice(4) : "");
  right.refuse(side?.[1] === "right" ? message.slice(7) : "");
  byId("x-map-told").textContent = side ? "" : message;
}

function busy(is) {
  byId("x-map-draw").disabled = is;
  byId("x-map-stop").hidden = !is;
  byId("x-map-progress").hidden = !is;
}

function show(line, asked) {
  numbers = line.numbers;
  drawn = asked;
  render(byId("x-map-view"), line.map);
  byId("x-map-view").classList.remove("stale");
  byId("x-map-told").textContent = "Done.";
  const canvas = byId("x-map-view").querySelector(".canvas");
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const [rows, columns] = [numbers.values.length, numbers.values[0].length];
    const column = Math.floor((columns * (event.clientX - box.left)) / box.width);
    const row = rows - 1 - Math.floor((rows * (event.clientY - box.top)) / box.height);
    point(row, column);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    point(cursor[0] + step[0], cursor[1] + step[1]);
  });
  cursor = [0, 0];
  byId("x-map-view").scrollIntoView({ block: "nearest" });
}

function point(row, column) {
  const rows = numbers.values.length;
  const columns = numbers.values[0].length;
  cursor = [Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1)];
  const mark = byId("x-map-view").querySelector(".cursor");
  mark.setAttribute("x", cursor[1]);
  mark.setAttribute("y", rows - 1 - cursor[0]);
  mark.classList.add("on");
  const value = numbers.values[cursor[0]][cursor[1]];
  const said = value === null ? "undefined" : `${Number(value.toPrecision(5)).toLocaleString("en-GB", { maximumSignificantDigits: 5 }).replace("-", "−")} ${numbers.measure}`;
  byId("x-map-here").textContent =
    `${numbers.words[0]} ${numbers.up[cursor[0]]}, ${numbers.words[1]} ${numbers.right[cursor[1]]}: ${numbers.label} ${said}`;
}

async function draw() {
  const asked = question();
  running = new AbortController();
  busy(true);
  refuse("");
  try {
    for await (const line of told("map", asked, running.signal)) {
      if (line.map) show(line, asked);
      else {
        byId("x-map-progress").value = line.done / line.total;
        byId("x-map-told").textContent = `${line.done} of ${line.total} points`;
      }
    }
  } catch (error) {
    if (error.name === "AbortError") byId("x-map-told").textContent = "Stopped.";
    else if (error instanceof Refused) refuse(error.message);
    else throw error;
  } finally {
    busy(false);
  }
}

export function startMap() {
  up = new Picker(byId("x-map-up"), { kind: "weights", receiver: "0", giver: "1" }, () => {});
  right = new Picker(byId("x-map-right"), { kind: "costs", agent: "0" }, () => {});
  byId("x-map-metric").addEventListener("change", arrange);
  byId("x-map-draw").addEventListener("click", draw);
  byId("x-map-stop").addEventListener("click", () => running?.abort());
}

function arrange() {
  const metric = byId("x-map-metric").value;
  byId("x-map-agent").parentElement.hidden = !ONE_MEMBER.has(metric);
  if (dealt) fillAgents(byId("x-map-agent"), dealt.agents);
}

export async function showMap(answer) {
  dealt = answer;
  arrange();
  await up.fill(answer);
  await right.fill(answer);
  if (drawn && JSON.stringify(drawn.draft) !== JSON.stringify(typed())) {
    byId("x-map-view").classList.add("stale");
    byId("x-map-told").textContent = "The federation has changed since this map was drawn.";
  }
}
