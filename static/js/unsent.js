// What was typed into a form that is sent after the session has ended is kept in this tab until its page is open again.
// Without this file the login page says all the same that nothing was saved. Passwords and files are never kept.
"use strict";

(() => {
  const KEY = "unsent form";
  const NOT_TYPED = ["hidden", "password", "file", "submit", "button", "reset", "image"];
  const LONGEST_MS = 60 * 60 * 1000;

  function kept() {
    try {
      return JSON.parse(sessionStorage.getItem(KEY));
    } catch {
      return null; // the browser keeps nothing
    }
  }

  function keep(draft) {
    try {
      if (draft) sessionStorage.setItem(KEY, JSON.stringify(draft));
      else sessionStorage.removeItem(KEY);
      return true;
    } catch {
      return false; // too long for the browser, or it keeps nothing
    }
  }

  const user = () => document.querySelector("form[data-user]")?.dataset.user ?? "";
  const page = () => location.pathname + location.search;
  const fieldsOf = (form) =>
    Array.from(form.elements).filter((field) => field.name && field.type && !NOT_TYPED.includes(field.type));
  const chosen = (field) => Array.from(field.options, (option) => option.selected);

  function valueOf(field) {
    if (field.type === "checkbox" || field.type === "radio") return field.checked;
    return field.options ? chosen(field) : field.value;
  }

  function restore(field, value) {
    if (field.type === "checkbox" || field.type === "radio") field.checked = value;
    else if (field.options) Array.from(field.options).forEach((option, place) => (option.selected = value[place]));
    else field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.dispatchEvent(new Event("change", { bubbles: true }));
  }

  document.addEventListener(
    "submit",
    (event) => {
      const form = event.target;
      const fields = fieldsOf(form);
      if (form.method !== "post" || !fields.length || form.querySelector("input[type=password]")) return;
      const values = fields.map((field) => [field.name, valueOf(field)]);
      keep(null); // what is too long leaves nothing behind
      keep({ page: page(), action: form.getAttribute("action"), user: user(), at: Date.now(), values });
    },
    true,
  );

  document.addEventListener("DOMContentLoaded", () => {
    const draft = kept();
    if (!draft) return;
    const told = document.querySelector("[data-unsent]");
    if (told) {
      if (keep({ ...draft, unsent: true })) told.append(" What you typed is kept in this tab.");
      return;
    }
    if (!draft.unsent || Date.now() - draft.at > LONGEST_MS) {
      keep(null); // it was taken
      return;
    }
    if (draft.page !== page() || ![user(), ""].includes(draft.user)) return;
    const form = Array.from(document.forms).find(
      (form) =>
        form.getAttribute("action") === draft.action &&
        draft.values.map(([name]) => name).join() === fieldsOf(form).map((field) => field.name).join(),
    );
    keep(null);
    if (!form) return;
    fieldsOf(form).forEach((field, place) => restore(field, draft.values[place][1]));
    const notice = document.createElement("p");
    notice.className = "notice";
    notice.setAttribute("role", "status");
    notice.textContent = "What you typed is here again. It was not saved: look at it, and send it once more.";
    form.prepend(notice);
  });
})();
