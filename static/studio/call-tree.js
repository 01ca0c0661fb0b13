// A turn's calls as nested details, from what /admin/turns/{id} tells of it.
(() => {
  "use strict";

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value) node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  const took = (seconds) =>
    seconds === null ? "broken off" : seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;

  const places = (usd) => (usd === 0 ? 0 : usd >= 0.1 ? 2 : usd >= 0.0001 ? 4 : 6);
  const paid = (usd) => (usd === null ? "price unknown" : `$${usd.toFixed(places(usd))}`);

  function text(value) {
    if (typeof value !== "string") return JSON.stringify(value, null, 2);
    try { return JSON.stringify(JSON.parse(value), null, 2); } catch { return value; }
  }

  function block(label, value, kind) {
    if (value === null || value === undefined || value === "") return null;
    return make("div", {}, make("span", { class: "muted" }, label), make("pre", { class: `is-wrapped ${kind ?? ""}` }, text(value)));
  }

  function modelCall(call) {
    const usage = call.usage;
    const summary = make("summary", {},
      make("span", { class: "badge" }, "model"),
      make("span", { class: "name" }, `${call.provider} / ${call.model}`),
      make("span", { class: "muted" }, took(call.seconds)));
    if (call.error) summary.append(make("span", { class: "badge is-bad" }, "failed"));
    return make("details", {}, summary,
      usage ? make("p", { class: "muted" }, `${usage.input_tokens} tokens in, ${usage.output_tokens} out, ${paid(call.cost_usd)}`) : null,
      block("Error", call.error, "is-bad"));
  }

  function toolCall(call) {
    const summary = make("summary", {},
      make("span", { class: "badge is-accent" }, call.kind),
      make("span", { class: "name" }, call.name),
      make("span", { class: "muted" }, took(call.seconds)));
    if (call.error) summary.append(make("span", { class: "badge is-bad" }, "failed"));
    return make("details", {}, summary,
      block("Arguments", call.arguments), block("Result", call.result), block("Error", call.error, "is-bad"),
      call.calls.length ? list(call.calls) : null);
  }

  const list = (calls) => make("ul", {},
    ...calls.map((call) => make("li", {}, call.object === "model_call" ? modelCall(call) : toolCall(call))));

  // Fills an element with a turn's summary and its tree.
  window.studio.tree = (place, turn) => {
    const usage = turn.usage;
    place.replaceChildren(
      make("p", {}, make("span", { class: `badge ${turn.outcome === "ok" ? "is-good" : "is-warn"}` }, turn.outcome), " ",
        make("span", { class: "muted" }, `${turn.agent}, ${took(turn.seconds)}, ${usage.input_tokens} + ${usage.output_tokens} tokens, ${paid(turn.cost_usd)}`)),
      turn.error ? block("Error", turn.error, "is-bad") : "",
      list(turn.calls));
    place.querySelectorAll("details").forEach((details) => { details.open = turn.calls.length < 4; });
  };
})();
