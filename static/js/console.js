// What the console's pages do by themselves. Every page works without this file.
"use strict";

// A diagram that has changed takes the old one's place once it has been loaded, so nothing flickers: htmx keeps the
// image (hx-preserve), and its figure says which address it should have by now.
document.addEventListener("htmx:afterSwap", () => {
  for (const figure of document.querySelectorAll("figure[data-image]")) {
    const image = figure.querySelector("img");
    const address = figure.dataset.image;
    if (image.getAttribute("src") === address) continue;
    const next = new Image();
    next.src = address;
    next.decode().then(
      () => image.setAttribute("src", address),
      () => {}, // not to be had just now: the next look asks again
    );
  }
});

// What is larger than a request may be is not sent: the server could only refuse all of it.
const bytesOf = (text) => new TextEncoder().encode(text.replace(/\r?\n/g, "\r\n")).length; // as a form sends it
const inKilobytes = (bytes) => `${Math.ceil(bytes / 1024).toLocaleString("en")} KB`;
const inMegabytes = (bytes) => `${(Math.ceil((bytes / 2 ** 20) * 10) / 10).toLocaleString("en")} MB`;
for (const field of document.querySelectorAll("[data-most-bytes]")) {
  const most = Number(field.dataset.mostBytes);
  const told = document.createElement("p");
  told.className = "error";
  told.setAttribute("role", "alert");
  told.hidden = true;
  field.after(told);
  const sizeOf = () => {
    if (field.files) return Array.from(field.files).reduce((sum, file) => sum + file.size, 0);
    return field.value.length * 4 < most ? 0 : bytesOf(field.value);
  };
  const fits = () => {
    const size = sizeOf();
    const tooLarge = field.files
      ? `${inMegabytes(size)} are chosen, and at most ${inMegabytes(most)} can be sent.`
      : `This is ${inKilobytes(size)}, and at most ${inKilobytes(most)} can be typed: upload it as a file.`;
    told.textContent = size > most ? tooLarge : "";
    told.hidden = size <= most;
    return size <= most;
  };
  field.addEventListener("input", fits);
  field.form.addEventListener("submit", (event) => {
    if (fits()) return;
    event.preventDefault();
    field.focus();
  });
}

// Files cannot be put back into a form that was refused: the licence that they need is asked for before they are sent.
for (const input of document.querySelectorAll("input[data-own-licence]")) {
  const stateTheirOwn = new RegExp(input.dataset.ownLicence, "i");
  const need = () => {
    input.form.elements.licence.required = Array.from(input.files).some((file) => !stateTheirOwn.test(file.name));
  };
  input.addEventListener("change", need);
  need();
}

// A browser points only at what can be seen: a field that it finds wrong is unfolded first.
document.addEventListener(
  "invalid",
  (event) => {
    const folded = event.target.closest("details:not([open])");
    if (folded) folded.open = true;
  },
  true,
);
