// Questions to the server, and words about how they went.

export class Refused extends Error {}

const GONE =
  "The explorer does not answer; perhaps it was stopped. What you typed is still here: start it again with `fedpact explore`, open the address it prints, and copy it over.";
const { token } = JSON.parse(document.getElementById("x-start").textContent);

export async function sent(name, question, signal) {
  let response;
  try {
    response = await fetch(`ask/${name}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Fedpact-Token": token },
      body: JSON.stringify(question),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(GONE);
  }
  if (response.ok) return response;
  let message = `The explorer failed on this (${response.status}); its terminal says why.`;
  try {
    message = (await response.json()).error || message;
  } catch {
    // No words came with it.
  }
  throw new Refused(message);
}

export async function ask(name, question, signal) {
  return (await sent(name, question, signal)).json();
}

// Calls of the function it makes overtake each other: only the latest runs to its end.
export function latest(work) {
  let controller = null;
  return async (...given) => {
    controller?.abort();
    const own = new AbortController();
    controller = own;
    try {
      return await work(own.signal, ...given);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
      return undefined;
    } finally {
      if (controller === own) controller = null;
    }
  };
}

// At most one call at a time; of those that come meanwhile, the newest is next.
export function newest(work) {
  let running = false;
  let next = null;
  return async (...given) => {
    if (running) {
      next = given;
      return;
    }
    running = true;
    try {
      for (let now = given; now; ) {
        await work(...now);
        now = next;
        next = null;
      }
    } finally {
      running = false;
      next = null;
    }
  };
}

// Answers that come line by line: progress, and the answer itself at the end.
export async function* told(name, question, signal) {
  const response = await sent(name, question, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split("\n");
    rest = parts.pop();
    for (const part of parts) {
      const line = JSON.parse(part);
      if (line.error) throw new Refused(line.error);
      yield line;
    }
  }
}

export const byId = (id) => document.getElementById(id);

export function setNote(message) {
  const place = byId("x-notes");
  place.replaceChildren();
  if (!message) return;
  const text = document.createElement("p");
  text.textContent = message;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "plain";
  close.textContent = "×";
  close.setAttribute("aria-label", "Close this message");
  close.addEventListener("click", () => place.replaceChildren());
  place.append(text, close);
}

// Only what the server rendered comes here, and it escapes every name.
export function render(place, html) {
  place.innerHTML = html;
}

export async function save(name, question, file) {
  const response = await sent(name, question);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = file;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
