// A run that is watched: asked for each second, and what is new is put into the page.
// Nothing that is there is made anew, so what somebody unfolded stays open.
(() => {
  "use strict";

  const PAUSE = 1000;
  const OVER = ["done", "failed", "cancelled"];
  const run = document.getElementById("run");
  if (!run || (OVER.includes(run.dataset.state) && !run.querySelector(".chip.is-open"))) return;
  const { address } = run.dataset;
  const part = (name, within = run) => within.querySelector(`[data-part="${name}"]`);
  let seen = "";

  // What would change the page, in a word.
  function revision({ state, transcript, batch_runs: others }) {
    const scores = transcript.map((message) => message.scores.length);
    return JSON.stringify([state, transcript.length, scores, others.map((each) => [each.state, each.outcome])]);
  }

  async function look() {
    const told = await window.studio.call(address);
    const now = revision(told);
    if (now !== seen) await draw();
    seen = now;
    const isOpen = !OVER.includes(told.state) || told.batch_runs.some((each) => each.outcome === "open");
    if (isOpen) setTimeout(again, PAUSE);
  }

  async function draw() {
    const answer = await fetch(`${address}?fragment=1`, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.statusText);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const name of ["status", "comparison"]) window.studio.renew(part(name), part(name, fresh));
    const talk = part("dialogue");
    for (const line of fresh.querySelectorAll(".line")) {
      const here = document.getElementById(line.id);
      if (!here) talk.append(line);
      else if (here.dataset.revision !== line.dataset.revision) {
        part("scores", here).replaceWith(part("scores", line));
        here.dataset.revision = line.dataset.revision;
      }
    }
    if (talk.querySelector(".line")) part("empty")?.remove();
    const told = document.getElementById("run-status");
    const outcome = part("status").querySelector(".run-head p").textContent.replace(/\s+/g, " ").trim();
    if (told.textContent !== outcome) told.textContent = outcome;
    window.studio.refresh();
  }

  // The server may be away for a moment: then it is asked again, a little later.
  async function again() {
    try {
      await look();
    } catch {
      setTimeout(again, 3 * PAUSE);
    }
  }

  again();
})();
