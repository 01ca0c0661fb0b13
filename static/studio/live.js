// The live board: told over a websocket what changes; asks every two seconds without one.
(() => {
  "use strict";

  const LATE = 2000; // between two questions, in milliseconds
  const SILENT = 15000; // until a socket that says nothing is given up

  const board = document.getElementById("live");
  if (!board) return;
  const badge = document.getElementById("live-state");
  const turns = new Map();
  let rows = {};
  let isLive = false;
  let polling = 0;
  let pause = 500;

  // Writing, as templatetags/live.py does.

  function took(seconds) {
    if (seconds === null || seconds === undefined) return "";
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 60) return `${seconds.toFixed(1)} s`;
    const minutes = Math.floor(Math.round(seconds) / 60);
    return minutes < 60 ? `${minutes} min ${Math.round(seconds) % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  function doing({ what, names }) {
    const told = names.join(", ");
    return { model: `waits for ${told}`, tools: `calls ${told}`, end: "goes on" }[what] ?? "begins";
  }

  const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const COLOURS = { running: "is-accent", done: "is-good", errored: "is-bad", cancelled: "is-warn" };

  // Filling. Nothing is touched that stays as it is, so nothing flickers.

  function part(element, name) {
    return element.querySelector(`[data-field="${name}"]`);
  }

  function say(element, name, text) {
    const found = part(element, name);
    if (found && found.textContent !== text) found.textContent = text;
    return found;
  }

  function show(element, name, text) {
    say(element, name, text).hidden = !text;
  }

  function at(element, name, instant) {
    const time = part(element, name).querySelector("time");
    if (!time || time.dateTime === instant) return;
    time.dateTime = instant;
    time.textContent = studio.spoken((Date.now() - new Date(instant)) / 1000);
    time.title = new Date(instant).toLocaleString();
  }

  function clock(element, since, seconds) {
    const found = part(element, "elapsed");
    found.dataset.since = since ?? "";
    if (!since) say(element, "elapsed", took(seconds));
    else tick(found);
  }

  function tick(found) {
    const text = took(Math.max(0, Math.floor((Date.now() - new Date(found.dataset.since)) / 1000)) || 0.001);
    const whole = text.endsWith(" ms") ? "0 s" : text.replace(".0 s", " s");
    if (found.textContent !== whole) found.textContent = whole;
  }

  // One element for each thing, by its id; made of the mould, moved and removed as need be.
  function keep(list, things, mould, fill) {
    const here = new Map([...list.children].map((element) => [element.dataset.id, element]));
    let place = list.firstElementChild;
    for (const thing of things) {
      let element = here.get(thing.id);
      here.delete(thing.id);
      if (!element) {
        element = document.getElementById(mould).content.firstElementChild.cloneNode(true);
        element.dataset.id = thing.id;
        element.classList.add("is-new");
      }
      fill(element, thing);
      if (element === place) place = place.nextElementSibling;
      else list.insertBefore(element, place);
    }
    for (const element of here.values()) element.remove();
  }

  function fillTurn(element, turn) {
    say(element, "agent", turn.agent);
    show(element, "origin", turn.origin === "chat" ? "" : turn.origin);
    say(element, "user", turn.user_id.slice(0, 8)).href = `/admin/users/${turn.user_id}`;
    say(element, "text", turn.user_message);
    say(element, "step", doing(turn.doing));
    clock(element, turn.started_at);
    keep(element.querySelector("[data-calls]"), turn.calls, "live-call", fillCall);
  }

  function fillCall(element, call) {
    element.className = `live-call is-${call.state}`;
    say(element, "name", call.name);
    say(element, "kind", call.kind);
    say(element, "target", call.target && call.target !== call.name ? call.target : "");
    say(element, "error", call.error ?? "");
    clock(element, call.state === "running" ? call.started_at : null, call.seconds);
    keep(element.querySelector("[data-calls]"), call.calls, "live-call", fillCall);
  }

  function fillFinished(element, turn) {
    say(element, "agent", turn.agent).href = `/admin/turns/${turn.id}`;
    show(element, "outcome", turn.outcome === "ok" ? "" : turn.outcome);
    show(element, "origin", turn.origin === "chat" ? "" : turn.origin);
    say(element, "text", turn.error || turn.user_message);
    say(element, "duration", took(turn.seconds));
    at(element, "ended", turn.ended_at);
  }

  function fillTask(element, task) {
    say(element, "state", task.state).className = `badge ${COLOURS[task.state] ?? ""}`;
    say(element, "agent", task.agent).href = `/admin/tasks/${task.id}`;
    say(element, "kind", task.kind);
    say(element, "text", task.error || task.prompt);
    at(element, "since", task.since);
  }

  // What had the focus goes on in another list, or is over: the focus goes with it, or
  // to what stands last in its place.
  function holding(change) {
    const held = document.activeElement;
    const row = board.contains(held) ? held.closest("[data-list] > [data-id]") : null;
    const list = row?.parentElement;
    change();
    if (!row || document.activeElement === held) return;
    const again = board.querySelector(`[data-id="${CSS.escape(row.dataset.id)}"]`);
    const next = held.isConnected ? held : again?.querySelector("a") ?? list.lastElementChild?.querySelector("a");
    (next ?? document.getElementById("live-state")).focus({ preventScroll: true });
  }

  function put(name, things, fill, mould) {
    keep(board.querySelector(`[data-list="${name}"]`), things, mould, fill);
    board.querySelector(`[data-empty="${name}"]`).hidden = things.length > 0;
  }

  const draw = (told) => holding(() => redraw(told));

  function redraw({ count, processes }) {
    const now = [...turns.values()].sort((a, b) => (a.started_at < b.started_at ? -1 : 1));
    put("turns", now, fillTurn, "live-turn");
    say(board, "count", grouped(count));
    say(board, "processes", grouped(processes));
    if (rows.finished) put("finished", rows.finished, fillFinished, "live-finished");
    if (!rows.tasks) return;
    const { counts, more, open, ended } = rows.tasks;
    put("open", open, fillTask, "live-task");
    put("ended", ended, fillTask, "live-task");
    say(board, "running", grouped(counts.running));
    say(board, "queued", grouped(counts.queued) + (more ? "+" : ""));
  }

  // Hearing.

  function whole(told) {
    turns.clear();
    for (const turn of told.turns) turns.set(turn.id, turn);
    rows = { finished: told.finished ?? rows.finished, tasks: told.tasks ?? rows.tasks };
    draw(told);
  }

  function changed(told) {
    for (const [id, turn] of Object.entries(told.turns)) {
      if (turn) turns.set(id, turn);
      else turns.delete(id);
    }
    rows = { finished: told.finished ?? rows.finished, tasks: told.tasks ?? rows.tasks };
    draw(told);
  }

  function state(text, colour = "") {
    badge.textContent = text;
    badge.className = `badge ${colour}`;
  }

  function listen() {
    const address = new URL(board.dataset.events, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
    let patience = 0;
    const wait = () => {
      clearTimeout(patience);
      patience = setTimeout(() => socket.close(), SILENT);
    };
    wait();
    socket.addEventListener("message", (event) => {
      wait();
      const told = JSON.parse(event.data);
      if (told.type === "snapshot") {
        pause = 500;
        isLive = true;
        clearTimeout(polling);
        state("live", "is-good");
        whole(told);
      } else changed(told);
    });
    socket.addEventListener("close", () => {
      isLive = false;
      clearTimeout(patience);
      clearTimeout(polling);
      ask();
      setTimeout(listen, pause);
      pause = Math.min(pause * 2, 30000);
    });
  }

  async function ask() {
    let told = null;
    let said = ["every two seconds", "is-warn"];
    try {
      told = await studio.call(board.dataset.snapshot, { signal: AbortSignal.timeout(10000) });
    } catch (error) {
      said = [error.status === 401 || error.status === 403 ? "load the page again" : "not reached", "is-bad"];
    }
    // Meanwhile the socket may have come back, and knows better.
    if (isLive) return;
    if (told) whole(told);
    state(...said);
    clearTimeout(polling);
    polling = setTimeout(ask, LATE);
  }

  setInterval(() => {
    for (const found of board.querySelectorAll('[data-since]:not([data-since=""])')) tick(found);
  }, 1000);
  listen();
})();
