// Refreshes the parts of an open page. A part is an element with an id and `data-part`.
//
// A part with `data-hold` is a listing: when rows would move it stays as it is, and a button offers the new rows.
// A hidden or paused page fetches nothing; a part with selected text or a focused field stays as it is.
const SLOWEST_SECONDS = 30;

export function startLive() {
  const seconds = Number(document.body.dataset.live ?? 0);
  const button = document.querySelector("[data-live-toggle]");
  if (!seconds || !button) return;
  const state = { seconds, failures: 0, paused: false, timer: 0 };
  button.addEventListener("click", () => toggle(state, button));
  document.addEventListener("visibilitychange", () => !document.hidden && plan(state, 0));
  plan(state, seconds);
}

export function toggleLive() {
  document.querySelector("[data-live-toggle]")?.click();
}

function toggle(state, button) {
  state.paused = !state.paused;
  button.setAttribute("aria-pressed", String(!state.paused));
  button.querySelector("[data-live-word]").textContent = state.paused ? "Paused" : "Live";
  if (!state.paused) plan(state, 0);
}

function plan(state, seconds) {
  clearTimeout(state.timer);
  state.timer = setTimeout(() => refresh(state), seconds * 1000);
}

async function refresh(state) {
  if (state.paused || document.hidden) return;
  const lost = document.querySelector("[data-lost]");
  try {
    const answer = await fetch(location.href, { headers: { "x-live": "1" }, credentials: "same-origin" });
    if (!answer.ok) throw new Error(String(answer.status));
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!state.paused) update(found);
    state.failures = 0;
    lost.hidden = true;
  } catch {
    state.failures += 1;
    lost.hidden = state.failures < 2;
  }
  plan(state, Math.min(state.seconds * 2 ** state.failures, SLOWEST_SECONDS));
}

function update(found) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const next = found.getElementById(part.id);
    if (!next || isInUse(part)) continue;
    if (part.dataset.hold && rows(part) !== rows(next)) offer(part, next);
    else replace(part, next);
  }
}

function rows(part) {
  return [...part.querySelectorAll("[data-row]")].map((row) => row.dataset.id ?? row.querySelector("a")?.href).join("\n");
}

function isInUse(part) {
  if (part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) return true;
  const selection = getSelection();
  return Boolean(selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

function offer(part, next) {
  let button = part.querySelector(":scope > .fresh");
  if (!button) {
    button = document.createElement("button");
    button.type = "button";
    button.className = "fresh";
    button.textContent = `Show the newer ${part.dataset.hold}`;
    part.prepend(button);
  }
  button.onclick = () => replace(part, next);
}

function replace(part, next) {
  if (part.innerHTML === next.innerHTML) return;
  const place = placeOf(document.activeElement, part);
  const owners = new Map([...part.querySelectorAll("[data-owner]")].map((cell) => [cell.id, cell.dataset.owner]));
  const at = [...part.querySelectorAll("[data-row]")].findIndex((row) => row.classList.contains("at"));
  const scrolled = [...part.querySelectorAll(".table")].map((each) => each.scrollLeft);
  part.replaceChildren(...document.importNode(next, true).childNodes);
  part.querySelectorAll(".table").forEach((each, number) => (each.scrollLeft = scrolled[number] ?? 0));
  part.querySelectorAll("[data-row]")[at]?.classList.add("at");
  for (const cell of part.querySelectorAll("[data-owner]")) {
    if (owners.has(cell.id) && owners.get(cell.id) !== cell.dataset.owner) cell.classList.add("changed");
  }
  if (place !== null) part.querySelectorAll("a, button")[place]?.focus({ preventScroll: true });
}

function placeOf(element, part) {
  if (!element || !part.contains(element)) return null;
  const place = [...part.querySelectorAll("a, button")].indexOf(element);
  return place < 0 ? null : place;
}
