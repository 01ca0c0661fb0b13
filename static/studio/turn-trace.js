// Loads the trace of a turn when its details are opened for the first time.
(() => {
  "use strict";

  document.addEventListener("toggle", async (event) => {
    const details = event.target;
    if (!details.matches?.("details.trace[data-src]") || !details.open) return;
    const { src } = details.dataset;
    delete details.dataset.src;
    try {
      const response = await fetch(src, { headers: { Accept: "text/html" } });
      if (!response.ok) throw new Error(response.statusText);
      details.querySelector("[data-target]").innerHTML = await response.text();
      window.studio.updateTimes();
    } catch {
      details.dataset.src = src; // Opening it again retries; the link stays.
    }
  }, true);
})();
