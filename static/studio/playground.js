// The playground: a message goes out, its events come in, and then what happened.
(() => {
  "use strict";

  const say = document.getElementById("message-form");
  if (!say) return;
  const chosen = document.getElementById("turn-options");
  const message = document.getElementById("message");
  const said = document.getElementById("messages");
  const tree = document.getElementById("tree");
  const send = document.getElementById("send");
  const stop = document.getElementById("stop");
  let running = null;

  function bubble(kind, text = "") {
    document.getElementById("playground-hint")?.remove();
    const node = document.createElement("div");
    node.className = `bubble is-${kind}`;
    node.textContent = text;
    said.append(node);
    node.scrollIntoView({ block: "nearest" });
    return node;
  }

  function note(text, kind = "") {
    const node = document.createElement("p");
    node.className = `meta ${kind}`;
    node.textContent = text;
    said.append(node);
    return node;
  }

  async function* frames(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      let end;
      while ((end = rest.indexOf("\n\n")) >= 0) {
        const frame = rest.slice(0, end);
        rest = rest.slice(end + 2);
        const data = frame.split("\n").find((line) => line.startsWith("data: "));
        if (data && data !== "data: [DONE]") yield JSON.parse(data.slice(6));
      }
    }
  }

  async function talk(text) {
    const fields = new FormData(chosen);
    running = new AbortController();
    bubble("user", text);
    const began = performance.now();
    let reply = null, thought = null, first = null;
    const answer = await fetch("/admin/playground/turns", {
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
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const id = answer.headers.get("X-Coulisse-Turn");
    for await (const chunk of frames(answer.body)) {
      if (chunk.error) throw Object.assign(new Error(chunk.error.message), { id });
      if (chunk.agent) note(`asked ${chunk.agent}`);
      const delta = chunk.choices[0]?.delta;
      if (delta?.reasoning_content) (thought ??= note("", "is-reasoning")).textContent += delta.reasoning_content;
      const piece = delta?.content || delta?.refusal;
      if (!piece) continue;
      first ??= performance.now() - began;
      reply ??= bubble("assistant");
      reply.textContent += piece;
      reply.scrollIntoView({ block: "nearest" });
    }
    if (first !== null)
      note(`first word after ${Math.round(first)} ms, whole after ${Math.round(performance.now() - began)} ms`);
    return id;
  }

  async function show(id) {
    if (!id || new FormData(chosen).has("incognito")) return;
    // The record is written a moment after the last word.
    for (const wait of [0, 150, 500, 1500]) {
      await new Promise((done) => setTimeout(done, wait));
      try {
        studio.tree(tree, await studio.call(`/admin/turns/${id}`));
        const link = document.createElement("a");
        link.href = `/admin/turns/${id}`;
        link.textContent = "Open this turn";
        tree.append(link);
        return;
      } catch (error) {
        if (error.status !== 404) throw error;
      }
    }
  }

  say.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = message.value.trim();
    if (!text || running || !chosen.reportValidity()) return;
    message.value = "";
    if (document.activeElement === send) message.focus();
    send.disabled = true;
    said.setAttribute("aria-busy", "true"); // A reader is told the whole reply, not each word.
    stop.hidden = false;
    try {
      await show(await talk(text));
    } catch (error) {
      if (error.name === "AbortError") note("stopped");
      else {
        const node = bubble("system", error.message);
        node.classList.add("is-bad");
        node.setAttribute("role", "alert");
        await show(error.id).catch(() => {});
      }
    } finally {
      running = null;
      send.disabled = false;
      said.removeAttribute("aria-busy");
      // Who reads on elsewhere is left there.
      if ([stop, document.body].includes(document.activeElement)) message.focus();
      stop.hidden = true;
    }
  });
  stop.addEventListener("click", () => running?.abort());
  message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      say.requestSubmit();
    }
  });
  message.focus();
})();
