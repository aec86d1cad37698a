// The behaviour of the console. Every page works without it; with it, pages are brought up to date and have keys.
import { startLive } from "./live.js";
import { startKeys } from "./keys.js";
import { startTheme } from "./theme.js";
import { startPicking } from "./picking.js";

startTheme();
startLive();
startKeys();
startPicking();

// On a phone the menu is one line: show the page that is looked at.
const current = document.querySelector(".menu [aria-current]");
if (current) current.closest(".menu").scrollLeft = current.offsetLeft - 40;

for (const form of document.querySelectorAll("form[data-auto]")) {
  form.addEventListener("change", () => form.requestSubmit());
}
for (const form of document.querySelectorAll("form.filters")) {
  // The address says what is looked for, and no more.
  form.addEventListener("submit", () => {
    for (const field of form.querySelectorAll("input, select")) field.disabled = field.value === "";
  });
}
