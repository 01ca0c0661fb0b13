// The events of a conversation by voice: tools run at our server, turns are stored there.

const EARLIER_MESSAGES = 20;

// Return a function that sends a request to our server and returns its JSON.
export function createApi({ base, user, token }) {
  return async (path, { body, key } = {}) => {
    const headers = { "X-Coulisse-User": user };
    if (token) headers.Authorization = `Bearer ${token}`;
    if (key) headers["Idempotency-Key"] = key;
    if (body) headers["Content-Type"] = "application/json";
    const method = body ? "POST" : "GET";
    const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.error.message);
    return content;
  };
}

export class Conversation {
  constructor({ api, agent, thread, send, show }) {
    Object.assign(this, { api, agent, thread, send, show });
    this.turns = []; // Not stored yet, oldest first. Each begins with an item of the user.
    this.byResponse = new Map();
    this.storing = Promise.resolve();
    this.hasTurns = false;
  }

  // Send the earlier messages of the thread to the model.
  async recallThread() {
    const path = `/v1/threads/${encodeURIComponent(this.thread)}/messages`;
    // A new thread has no messages: it begins with the first turn.
    const page = await this.api(`${path}?limit=${EARLIER_MESSAGES}`).catch(() => ({ data: [] }));
    for (const { role, content } of page.data.reverse()) {
      if (typeof content !== "string" || !["user", "assistant"].includes(role)) continue;
      const type = role === "user" ? "input_text" : "output_text";
      const item = { type: "message", role, content: [{ type, text: content }] };
      this.send({ type: "conversation.item.create", item });
    }
  }

  async handle(event) {
    switch (event.type) {
      case "input_audio_buffer.committed":
        this.turns.push({ item: event.item_id, said: null, reply: "", isAnswered: false });
        break;
      case "conversation.item.input_audio_transcription.completed":
        this.hear(event.item_id, event.transcript);
        await this.store();
        break;
      case "conversation.item.input_audio_transcription.failed":
        this.hear(event.item_id, "(inaudible)");
        await this.store();
        break;
      case "response.created":
        this.byResponse.set(event.response.id, this.turns.at(-1));
        break;
      case "response.done":
        await this.finish(event.response);
        break;
      case "error":
        throw new Error(event.error.message);
    }
  }

  hear(item, text) {
    const turn = this.turns.find((each) => each.item === item);
    if (!turn) return;
    turn.said = text.trim() || "(inaudible)";
    this.show("You", turn.said);
  }

  async finish({ id, output }) {
    const turn = this.byResponse.get(id);
    this.byResponse.delete(id);
    const messages = output.filter((item) => item.type === "message");
    const parts = messages.flatMap((item) => item.content);
    const text = parts.map((part) => part.transcript ?? part.text ?? "").join("\n").trim();
    if (text) this.show(this.agent, text);
    if (turn) turn.reply = [turn.reply, text].filter(Boolean).join("\n");
    const calls = output.filter((item) => item.type === "function_call");
    if (calls.length) {
      await Promise.all(calls.map((call) => this.run(call, turn)));
      this.send({ type: "response.create" });
    } else if (turn) {
      turn.isAnswered = true;
      await this.store();
    }
  }

  // Run a tool of the agent. The item proves, where a tool asks, that the user spoke again.
  async run({ name, call_id, arguments: given }, turn) {
    const body = { model: this.agent, name, call_id, arguments: given };
    if (turn) body.item_id = turn.item;
    body.metadata = { thread_id: this.thread };
    const failed = (problem) => ({
      type: "function_call_output",
      call_id,
      output: `Error: ${problem.message}`,
    });
    const item = await this.api("/v1/realtime/tool_calls", { body }).catch(failed);
    this.send({ type: "conversation.item.create", item });
  }

  // Store the turns that are complete, in their order. The key makes repetitions harmless.
  store() {
    const earlier = this.storing.catch(() => {}); // The next call retries a failed turn.
    this.storing = earlier.then(async () => {
      while (this.turns[0]?.isAnswered && this.turns[0].said !== null) {
        const [turn, next] = this.turns;
        if (turn.reply) {
          await this.add(turn);
        } else if (next?.said == null) {
          return;
        } else {
          next.said = `${turn.said}\n${next.said}`; // The user interrupted the reply.
        }
        this.turns.shift();
      }
    });
    return this.storing;
  }

  async add({ item, said, reply }) {
    const path = `/v1/threads/${encodeURIComponent(this.thread)}/messages`;
    const messages = [
      { role: "user", content: said },
      { role: "assistant", content: reply },
    ];
    await this.api(path, { key: item, body: { agent: this.agent, messages } });
    this.hasTurns = true;
  }

  async end() {
    await this.store();
    if (!this.hasTurns) return; // There may be no thread.
    const path = `/v1/threads/${encodeURIComponent(this.thread)}/end`;
    await this.api(path, { body: {} });
  }
}
