// The live page: receives changes over a websocket, and polls without one.
(() => {
  "use strict";

  const POLL_INTERVAL_MS = 2000;
  const SOCKET_TIMEOUT_MS = 15000; // without a message
  const MIN_RECONNECT_MS = 500;
  const MAX_RECONNECT_MS = 30000;

  const root = document.getElementById("live");
  if (!root) return;
  const badge = document.getElementById("live-state");
  const turns = new Map();
  let rows = {};
  let isConnected = false;
  let pollTimer = 0;
  let reconnectDelay = MIN_RECONNECT_MS;

  // Formats; `templatetags/live.py` formats the same values.

  function formatDuration(seconds) {
    if (seconds === null || seconds === undefined) return "";
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 60) return `${seconds.toFixed(1)} s`;
    const minutes = Math.floor(Math.round(seconds) / 60);
    return minutes < 60 ? `${minutes} min ${Math.round(seconds) % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  function describeStep({ kind, names }) {
    const list = names.join(", ");
    return { model: `waiting for ${list}`, tools: `calling ${list}`, end: "continuing" }[kind] ?? "starting";
  }

  const formatCount = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const COLORS = { running: "is-accent", done: "is-good", errored: "is-bad", cancelled: "is-warn" };

  // Updates of the page. Unchanged elements are not touched, so nothing flickers.

  function field(element, name) {
    return element.querySelector(`[data-field="${name}"]`);
  }

  function setText(element, name, text) {
    const found = field(element, name);
    if (found && found.textContent !== text) found.textContent = text;
    return found;
  }

  function setOptionalText(element, name, text) {
    setText(element, name, text).hidden = !text;
  }

  function setTime(element, name, instant) {
    const time = field(element, name).querySelector("time");
    if (!time || time.dateTime === instant) return;
    time.dateTime = instant;
    time.textContent = studio.relativeTime((Date.now() - new Date(instant)) / 1000);
    time.title = new Date(instant).toLocaleString();
  }

  function setElapsed(element, since, seconds) {
    const found = field(element, "elapsed");
    found.dataset.since = since ?? "";
    if (!since) setText(element, "elapsed", formatDuration(seconds));
    else updateElapsed(found);
  }

  function updateElapsed(element) {
    const text = formatDuration(Math.max(0, Math.floor((Date.now() - new Date(element.dataset.since)) / 1000)) || 0.001);
    const rounded = text.endsWith(" ms") ? "0 s" : text.replace(".0 s", " s");
    if (element.textContent !== rounded) element.textContent = rounded;
  }

  // Keeps one element per object, by its id; creates, moves and removes elements as needed.
  function syncList(list, objects, template, fill) {
    const existing = new Map([...list.children].map((element) => [element.dataset.id, element]));
    let position = list.firstElementChild;
    for (const object of objects) {
      let element = existing.get(object.id);
      existing.delete(object.id);
      if (!element) {
        element = document.getElementById(template).content.firstElementChild.cloneNode(true);
        element.dataset.id = object.id;
        element.classList.add("is-new");
      }
      fill(element, object);
      if (element === position) position = position.nextElementSibling;
      else list.insertBefore(element, position);
    }
    for (const element of existing.values()) element.remove();
  }

  function fillTurn(element, turn) {
    setText(element, "agent", turn.agent);
    setOptionalText(element, "origin", turn.origin === "chat" ? "" : turn.origin);
    setText(element, "user", turn.user_id.slice(0, 8)).href = `/admin/users/${turn.user_id}`;
    setText(element, "text", turn.user_message);
    setText(element, "step", describeStep(turn.current_step));
    setElapsed(element, turn.started_at);
    syncList(element.querySelector("[data-calls]"), turn.calls, "live-call", fillCall);
  }

  function fillCall(element, call) {
    element.className = `live-call is-${call.state}`;
    setText(element, "name", call.name);
    setText(element, "kind", call.kind);
    setText(element, "target", call.target && call.target !== call.name ? call.target : "");
    setText(element, "error", call.error ?? "");
    setElapsed(element, call.state === "running" ? call.started_at : null, call.seconds);
    syncList(element.querySelector("[data-calls]"), call.calls, "live-call", fillCall);
  }

  function fillFinishedTurn(element, turn) {
    setText(element, "agent", turn.agent).href = `/admin/turns/${turn.id}`;
    setOptionalText(element, "outcome", turn.outcome === "ok" ? "" : turn.outcome);
    setOptionalText(element, "origin", turn.origin === "chat" ? "" : turn.origin);
    setText(element, "text", turn.error || turn.user_message);
    setText(element, "duration", formatDuration(turn.seconds));
    setTime(element, "ended", turn.ended_at);
  }

  function fillTask(element, task) {
    setText(element, "state", task.state).className = `badge ${COLORS[task.state] ?? ""}`;
    setText(element, "agent", task.agent).href = `/admin/tasks/${task.id}`;
    setText(element, "kind", task.kind);
    setText(element, "text", task.error || task.prompt);
    setTime(element, "since", task.since);
  }

  // Changes the page and keeps the focus: on the same object, which may have moved to
  // another list, or else on the last object of its list.
  function keepFocus(change) {
    const focused = document.activeElement;
    const row = root.contains(focused) ? focused.closest("[data-list] > [data-id]") : null;
    const list = row?.parentElement;
    change();
    if (!row || document.activeElement === focused) return;
    const moved = root.querySelector(`[data-id="${CSS.escape(row.dataset.id)}"]`);
    const target = focused.isConnected ? focused : moved?.querySelector("a") ?? list.lastElementChild?.querySelector("a");
    (target ?? badge).focus({ preventScroll: true });
  }

  function updateList(name, objects, fill, template) {
    syncList(root.querySelector(`[data-list="${name}"]`), objects, template, fill);
    root.querySelector(`[data-empty="${name}"]`).hidden = objects.length > 0;
  }

  function render({ count, processes }) {
    const sorted = [...turns.values()].sort((a, b) => (a.started_at < b.started_at ? -1 : 1));
    updateList("turns", sorted, fillTurn, "live-turn");
    setText(root, "count", formatCount(count));
    setText(root, "processes", formatCount(processes));
    if (rows.finished) updateList("finished", rows.finished, fillFinishedTurn, "live-finished");
    if (!rows.tasks) return;
    const { counts, has_more: hasMore, open, ended } = rows.tasks;
    updateList("open", open, fillTask, "live-task");
    updateList("ended", ended, fillTask, "live-task");
    setText(root, "running", formatCount(counts.running));
    setText(root, "queued", formatCount(counts.queued) + (hasMore ? "+" : ""));
  }

  // Messages.

  function applySnapshot(message) {
    turns.clear();
    for (const turn of message.turns) turns.set(turn.id, turn);
    applyRows(message);
  }

  function applyChange(message) {
    for (const [id, turn] of Object.entries(message.turns)) {
      if (turn) turns.set(id, turn);
      else turns.delete(id);
    }
    applyRows(message);
  }

  function applyRows(message) {
    rows = { finished: message.finished ?? rows.finished, tasks: message.tasks ?? rows.tasks };
    keepFocus(() => render(message));
  }

  function showState(text, color = "") {
    badge.textContent = text;
    badge.className = `badge ${color}`;
  }

  function connect() {
    const url = new URL(root.dataset.events, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    let timeout = 0;
    const restartTimeout = () => {
      clearTimeout(timeout);
      timeout = setTimeout(() => socket.close(), SOCKET_TIMEOUT_MS);
    };
    restartTimeout();
    socket.addEventListener("message", (event) => {
      restartTimeout();
      const message = JSON.parse(event.data);
      if (message.type === "snapshot") {
        reconnectDelay = MIN_RECONNECT_MS;
        isConnected = true;
        clearTimeout(pollTimer);
        showState("live", "is-good");
        applySnapshot(message);
      } else applyChange(message);
    });
    socket.addEventListener("close", () => {
      isConnected = false;
      clearTimeout(timeout);
      clearTimeout(pollTimer);
      poll();
      setTimeout(connect, reconnectDelay);
      reconnectDelay = Math.min(reconnectDelay * 2, MAX_RECONNECT_MS);
    });
  }

  async function poll() {
    let snapshot = null;
    let state = ["every two seconds", "is-warn"];
    try {
      snapshot = await studio.call(root.dataset.snapshot, { signal: AbortSignal.timeout(10000) });
    } catch (error) {
      state = [error.status === 401 || error.status === 403 ? "reload the page" : "server unreachable", "is-bad"];
    }
    if (isConnected) return; // The socket reconnected during the request, and its data is newer.
    if (snapshot) applySnapshot(snapshot);
    showState(...state);
    clearTimeout(pollTimer);
    pollTimer = setTimeout(poll, POLL_INTERVAL_MS);
  }

  setInterval(() => {
    for (const element of root.querySelectorAll('[data-since]:not([data-since=""])')) updateElapsed(element);
  }, 1000);
  connect();
})();
