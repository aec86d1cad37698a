// The behaviour of the console. Every page works without it; with it, pages refresh and have keyboard shortcuts.
import { startLive } from "./live.js";
import { startKeys } from "./keys.js";
import { startTheme } from "./theme.js";
import { startPicking } from "./picking.js";

startTheme();
startLive();
startKeys();
startPicking();

// On a phone the menu is one line: scroll to the current page.
const current = document.querySelector(".menu [aria-current]");
if (current) current.closest(".menu").scrollLeft = current.offsetLeft - 40;

for (const form of document.querySelectorAll("form[data-auto]")) {
  form.addEventListener("change", () => form.requestSubmit());
}
for (const form of document.querySelectorAll("form.filters")) {
  // Keep empty fields out of the URL.
  form.addEventListener("submit", () => {
    for (const field of form.querySelectorAll("input, select")) field.disabled = field.value === "";
  });
}
