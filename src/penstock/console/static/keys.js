// The keyboard shortcuts: `?` lists them. They are off while the visitor types in a field.
import { toggleLive } from "./live.js";

let going = false;

export function startKeys() {
  const dialog = document.querySelector("[data-help]");
  document.querySelector("[data-help-open]")?.addEventListener("click", () => dialog.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && isField(event.target)) event.target.blur();
    if (isField(event.target) || dialog?.open) return;
    if (press(event, dialog)) event.preventDefault();
  });
}

function isField(element) {
  return element.matches?.("input:not([type=checkbox]), select, textarea") ?? false;
}

function press(event, dialog) {
  const { key } = event;
  if (going) {
    going = false;
    const link = [...document.querySelectorAll("[data-letter]")].find((each) => each.dataset.letter === key);
    if (link) location.assign(link.href);
    return Boolean(link);
  }
  if (key === "g") {
    going = true;
    setTimeout(() => (going = false), 1500);
    return true;
  }
  if (key === "?") return dialog.showModal(), true;
  if (key === "/") return document.querySelector("[data-focus]").focus(), true;
  if (key === "p") return toggleLive(), true;
  if (key === "j" || key === "k") return move(key === "j" ? 1 : -1);
  if (key === "Enter") return open(event);
  if (key === "x") return pick();
  if (key.startsWith("Arrow")) return step(key);
  return false;
}

function rows() {
  return [...document.querySelectorAll("[data-row]")];
}

function move(by) {
  const all = rows();
  if (!all.length) return false;
  const at = all.findIndex((row) => row.classList.contains("at"));
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
  for (const row of all) row.classList.toggle("at", row === next);
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function open(event) {
  if (event.target !== document.body && event.target.id !== "main") return false;
  const row = rows().find((each) => each.classList.contains("at"));
  const link = row?.querySelector("a[href*='record?'], a[href*='letter?']") ?? row?.querySelector("a");
  if (link) location.assign(link.href);
  return Boolean(link);
}

function pick() {
  const box = rows().find((each) => each.classList.contains("at"))?.querySelector("input[type=checkbox]");
  box?.click();
  return Boolean(box);
}

function step(key) {
  const cell = document.activeElement?.closest("[data-grid] a");
  if (!cell) return false;
  const cells = [...cell.parentElement.querySelectorAll("a")];
  const across = cells.filter((each) => each.offsetTop === cells[0].offsetTop).length;
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[key];
  cells[cells.indexOf(cell) + by]?.focus();
  return true;
}
