// Small comforts around htmx. Every page works without this file and without htmx.
"use strict";

// A swap replaces explanations with their new numbers; those that the reader had opened stay open.
let openBefore = new Set();
let focusNext = null; // the id of what gets the focus where the button that had it is gone after the swap

document.addEventListener("htmx:beforeSwap", (event) => {
  const failed = event.detail.xhr.status >= 400;
  if (failed && !event.detail.xhr.responseText.includes('id="main"')) {
    event.detail.shouldSwap = false; // not one of our pages: a proxy's, or nothing at all
    trouble("The server could not answer just now. Please try again in a moment.");
    return;
  }
  openBefore = new Set(Array.from(document.querySelectorAll("details[id][open]"), (details) => details.id));
  focusNext = document.activeElement?.dataset.focusNext;
});

document.addEventListener("htmx:afterSwap", (event) => {
  for (const id of openBefore) {
    const details = document.getElementById(id);
    if (details) details.open = true;
  }
  if (focusNext) document.getElementById(focusNext)?.focus({ preventScroll: true });
  // A new page's content begins at its title, for the keyboard and for a screen reader. After an error the reader
  // is still where the mistake can be mended.
  if (event.detail.target.id === "main" && event.detail.xhr.status === 200) {
    document.getElementById("page-title")?.focus({ preventScroll: true });
  }
});

document.addEventListener("htmx:sendError", () => {
  trouble("The server cannot be reached. Check the connection and try again.");
});

document.addEventListener("htmx:beforeRequest", (event) => {
  trouble("");
  // The hint under the box is seen; a screen reader is told the same.
  const waiting = document.getElementById("asking");
  if (waiting && event.detail.target.id === "main") {
    document.getElementById("announcer").textContent = waiting.textContent;
  }
});

function trouble(text) {
  const place = document.getElementById("trouble");
  if (!place) return;
  place.textContent = text;
  place.hidden = text === "";
}

// On a slow connection a switch can be pressed before htmx is there to see it.
document.addEventListener("DOMContentLoaded", () => {
  const pressed = Array.from(document.querySelectorAll(".switch")).find((box) => box.checked !== box.defaultChecked);
  pressed?.dispatchEvent(new Event("change", { bubbles: true }));
});

// Going back or forward before htmx is there changes the address alone; the page that belongs to it is fetched then.
const path = document.getElementById("main")?.dataset.path;
if (path && path !== location.pathname) location.reload();

// A menu that scrolls sideways on a phone begins at the page that is open.
for (const link of document.querySelectorAll("nav [aria-current]")) {
  const menu = link.closest("ul");
  menu.scrollLeft = link.offsetLeft - (menu.clientWidth - link.offsetWidth) / 2;
}

// In the question box Enter asks and Shift+Enter starts a new line, as in a search box.
document.addEventListener("keydown", (event) => {
  const composing = event.isComposing || event.keyCode === 229; // an input method is choosing characters
  if (event.key === "Enter" && !event.shiftKey && !composing && event.target.matches("textarea[data-enter-asks]")) {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
});
