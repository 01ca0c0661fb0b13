// Follows a smoke run: polls each second, and adds new lines and scores to the page.
// Existing lines stay, so opened details stay open.
(() => {
  "use strict";

  const INTERVAL_MS = 1000;
  const FINAL_STATES = ["done", "failed", "cancelled"];
  const run = document.getElementById("run");
  if (!run || (FINAL_STATES.includes(run.dataset.state) && !run.querySelector(".chip.is-open"))) return;
  const { address } = run.dataset;
  const part = (name, root = run) => root.querySelector(`[data-part="${name}"]`);
  let shownRevision = "";

  // Differs after each change that the page shows.
  function revisionOf({ state, transcript, batch_runs: batchRuns }) {
    const scores = transcript.map((message) => message.scores.length);
    return JSON.stringify([state, transcript.length, scores, batchRuns.map((each) => [each.state, each.outcome])]);
  }

  async function update() {
    const data = await window.studio.call(address);
    const revision = revisionOf(data);
    if (revision !== shownRevision) await render();
    shownRevision = revision;
    const isOpen = !FINAL_STATES.includes(data.state) || data.batch_runs.some((each) => each.outcome === "open");
    if (isOpen) setTimeout(poll, INTERVAL_MS);
  }

  async function render() {
    const response = await fetch(`${address}?fragment=1`, { headers: { Accept: "text/html" } });
    if (!response.ok) throw new Error(response.statusText);
    const updated = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const name of ["status", "comparison"]) window.studio.replaceElement(part(name), part(name, updated));
    const dialogue = part("dialogue");
    for (const line of updated.querySelectorAll(".line")) {
      const current = document.getElementById(line.id);
      if (!current) dialogue.append(line);
      else if (current.dataset.revision !== line.dataset.revision) {
        part("scores", current).replaceWith(part("scores", line));
        current.dataset.revision = line.dataset.revision;
      }
    }
    if (dialogue.querySelector(".line")) part("empty")?.remove();
    const status = document.getElementById("run-status");
    const outcome = part("status").querySelector(".run-head p").textContent.replace(/\s+/g, " ").trim();
    if (status.textContent !== outcome) status.textContent = outcome;
    window.studio.updateTimes();
  }

  async function poll() {
    try {
      await update();
    } catch {
      setTimeout(poll, 3 * INTERVAL_MS); // The server may be unreachable for a moment.
    }
  }

  poll();
})();
