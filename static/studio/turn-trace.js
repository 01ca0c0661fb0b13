// What happened in a turn, fetched when its "What happened" is opened for the first time.
(() => {
  "use strict";

  document.addEventListener("toggle", async (event) => {
    const details = event.target;
    if (!details.matches?.("details.trace[data-src]") || !details.open) return;
    const { src } = details.dataset;
    delete details.dataset.src;
    try {
      const answer = await fetch(src, { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(answer.statusText);
      details.querySelector("[data-target]").innerHTML = await answer.text();
      window.studio.refresh();
    } catch {
      details.dataset.src = src; // Opened again, it is tried again; the link stays.
    }
  }, true);
})();
