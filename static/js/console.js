// A diagram that has changed takes the old one's place once it has been loaded, so nothing flickers: htmx keeps the
// image (hx-preserve), and its figure says which address it should have by now.
"use strict";

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
