// The playground: sends a message, streams the reply, and shows the trace of the turn.
(() => {
  "use strict";

  const form = document.getElementById("message-form");
  if (!form) return;
  const options = document.getElementById("turn-options");
  const message = document.getElementById("message");
  const messages = document.getElementById("messages");
  const tree = document.getElementById("tree");
  const send = document.getElementById("send");
  const stop = document.getElementById("stop");
  let running = null;

  function addBubble(role, text = "") {
    document.getElementById("playground-hint")?.remove();
    const node = document.createElement("div");
    node.className = `bubble is-${role}`;
    node.textContent = text;
    messages.append(node);
    node.scrollIntoView({ block: "nearest" });
    return node;
  }

  function addNote(text, className = "") {
    const node = document.createElement("p");
    node.className = `meta ${className}`;
    node.textContent = text;
    messages.append(node);
    return node;
  }

  async function* readEvents(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value;
      let end;
      while ((end = buffer.indexOf("\n\n")) >= 0) {
        const event = buffer.slice(0, end);
        buffer = buffer.slice(end + 2);
        const data = event.split("\n").find((line) => line.startsWith("data: "));
        if (data && data !== "data: [DONE]") yield JSON.parse(data.slice(6));
      }
    }
  }

  // Streams a reply into the page; returns the id of the turn.
  async function runTurn(text) {
    const fields = new FormData(options);
    running = new AbortController();
    addBubble("user", text);
    const startedAt = performance.now();
    let reply = null, reasoning = null, firstTokenMs = null;
    const response = await fetch("/admin/playground/turns", {
      method: "POST",
      signal: running.signal,
      headers: {
        Accept: "application/json", "Content-Type": "application/json",
        "X-CSRFToken": document.getElementById("studio").dataset.csrf,
      },
      body: JSON.stringify({
        agent: fields.get("agent"), user: fields.get("user"), message: text,
        thread_id: fields.get("thread") || null, incognito: fields.has("incognito"),
      }),
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    const id = response.headers.get("X-Coulisse-Turn");
    for await (const chunk of readEvents(response.body)) {
      if (chunk.error) throw Object.assign(new Error(chunk.error.message), { id });
      if (chunk.agent) addNote(`called ${chunk.agent}`);
      const delta = chunk.choices[0]?.delta;
      if (delta?.reasoning_content) (reasoning ??= addNote("", "is-reasoning")).textContent += delta.reasoning_content;
      const content = delta?.content || delta?.refusal;
      if (!content) continue;
      firstTokenMs ??= performance.now() - startedAt;
      reply ??= addBubble("assistant");
      reply.textContent += content;
      reply.scrollIntoView({ block: "nearest" });
    }
    if (firstTokenMs !== null)
      addNote(`first token after ${Math.round(firstTokenMs)} ms, complete after ${Math.round(performance.now() - startedAt)} ms`);
    return id;
  }

  async function showTrace(id) {
    if (!id || new FormData(options).has("incognito")) return;
    // The turn is stored a moment after the last token.
    for (const delay of [0, 150, 500, 1500]) {
      await new Promise((done) => setTimeout(done, delay));
      try {
        studio.renderTurn(tree, await studio.call(`/admin/turns/${id}`));
        const link = document.createElement("a");
        link.href = `/admin/turns/${id}`;
        link.textContent = "View turn";
        tree.append(link);
        return;
      } catch (error) {
        if (error.status !== 404) throw error;
      }
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = message.value.trim();
    if (!text || running || !options.reportValidity()) return;
    message.value = "";
    if (document.activeElement === send) message.focus();
    send.disabled = true;
    messages.setAttribute("aria-busy", "true"); // Screen readers announce the complete reply, not each token.
    stop.hidden = false;
    try {
      await showTrace(await runTurn(text));
    } catch (error) {
      if (error.name === "AbortError") addNote("stopped");
      else {
        const node = addBubble("system", error.message);
        node.classList.add("is-bad");
        node.setAttribute("role", "alert");
        await showTrace(error.id).catch(() => {});
      }
    } finally {
      running = null;
      send.disabled = false;
      messages.removeAttribute("aria-busy");
      // Do not take the focus from another part of the page.
      if ([stop, document.body].includes(document.activeElement)) message.focus();
      stop.hidden = true;
    }
  });
  stop.addEventListener("click", () => running?.abort());
  message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  message.focus();
})();
