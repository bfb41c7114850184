// The form: what is typed, marks at what is wrong, colours of the weights, moving and pasting between cells.

import { byId } from "./ask.js";

const DEEPEST = 0.55;
let draft = null;

const inputs = () => byId("x-form").querySelectorAll("[data-field]");
const input = (field) => byId("x-form").querySelector(`[data-field="${CSS.escape(field)}"]`);

export function setDraft(given) {
  draft = given;
}

// What is typed now; texts of fields that are not shown are kept.
export function typed() {
  const texts = { ...draft.texts };
  for (const each of inputs()) texts[each.dataset.field] = each.value;
  const own = byId("x-own-curves");
  draft = { ...draft, texts, own_curves: own ? own.checked : draft.own_curves };
  return draft;
}

export function dress() {
  colour();
  for (const each of document.querySelectorAll("[data-name]")) {
    const place = Number(each.dataset.name);
    const name = input(`names[${place}]`).value.trim() || `member ${place + 1}`;
    each.textContent = name;
    each.title = each.textContent;
  }
}

function colour() {
  const cells = [...byId("x-form").querySelectorAll(".weight:not(.own)")];
  const numbers = cells.map((cell) => Number(cell.value.replace("−", "-")));
  const largest = Math.max(0, ...numbers.filter(Number.isFinite).map(Math.abs));
  cells.forEach((cell, place) => {
    const number = numbers[place];
    const known = Number.isFinite(number) && number !== 0 && cell.value.trim() !== "";
    cell.classList.toggle("help", known && number > 0);
    cell.classList.toggle("harm", known && number < 0);
    cell.style.setProperty("--shade", known ? ((DEEPEST * Math.abs(number)) / largest).toFixed(3) : "0");
  });
}

// Every error stands under its part of the form, and leads to its field.
export function markErrors(errors) {
  for (const each of inputs()) {
    each.removeAttribute("aria-invalid");
    each.removeAttribute("aria-describedby");
  }
  for (const list of document.querySelectorAll("#x-form .errors")) list.replaceChildren();
  errors.forEach((error, place) => {
    const item = document.createElement("li");
    item.id = `x-error-${place}`;
    const field = error.field && input(error.field);
    const words = document.createElement(field ? "button" : "b");
    words.textContent = field ? field.getAttribute("aria-label") : "The federation";
    item.append(words, ` ${error.message}`);
    if (field) {
      words.type = "button";
      words.className = "link";
      words.addEventListener("click", () => field.focus());
      field.setAttribute("aria-invalid", "true");
      field.setAttribute("aria-describedby", item.id);
    }
    byId(`x-errors-${field ? field.closest("fieldset").dataset.part : "payoff"}`).append(item);
  });
}

function neighbour(cell, down, right) {
  const row = cell.closest("tr");
  if (!row || !cell.closest(".typed")) return null;
  const rows = [...row.parentElement.children];
  const target = rows[rows.indexOf(row) + down];
  const column = [...row.querySelectorAll("input")].indexOf(cell) + right;
  return target ? target.querySelectorAll("input")[column] || null : null;
}

function moved(event) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], Enter: [event.shiftKey ? -1 : 1, 0] }[event.key];
  if (event.key === "Enter" && event.target.matches("input")) event.preventDefault();
  if (!steps || !event.target.matches(".typed input")) return;
  const next = neighbour(event.target, ...steps);
  if (next) {
    event.preventDefault();
    next.focus();
    next.select();
  }
}

// Several cells are for the server: they may name their columns, and make new members.
function pasted(event, paste) {
  const start = event.target;
  if (!start.matches(".typed input")) return;
  const text = event.clipboardData.getData("text");
  if (!/[\t\n]/.test(text.trim())) return;
  event.preventDefault();
  paste(start.dataset.field, text);
}

export function focusField(field) {
  input(field)?.focus();
}

export function watchForm(changed, paste) {
  const place = byId("x-form-place");
  place.addEventListener("keydown", moved);
  place.addEventListener("submit", (event) => event.preventDefault());
  place.addEventListener("paste", (event) => pasted(event, paste));
  place.addEventListener("input", (event) => {
    if (event.target.matches("[data-field]:not(select)")) changed();
  });
}
