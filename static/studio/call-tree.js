// Renders the calls of a turn, as `/admin/turns/{id}` returns them, as nested details.
(() => {
  "use strict";

  function createElement(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value) node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  const formatDuration = (seconds) =>
    seconds === null ? "cancelled" : seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;

  const decimals = (usd) => (usd === 0 ? 0 : usd >= 0.1 ? 2 : usd >= 0.0001 ? 4 : 6);
  const formatCost = (usd) => (usd === null ? "price unknown" : `$${usd.toFixed(decimals(usd))}`);

  function indentJson(value) {
    if (typeof value !== "string") return JSON.stringify(value, null, 2);
    try { return JSON.stringify(JSON.parse(value), null, 2); } catch { return value; }
  }

  function textBlock(label, value, color) {
    if (value === null || value === undefined || value === "") return null;
    return createElement("div", {}, createElement("span", { class: "muted" }, label),
      createElement("pre", { class: `is-wrapped ${color ?? ""}` }, indentJson(value)));
  }

  function modelCall(call) {
    const usage = call.usage;
    const summary = createElement("summary", {},
      createElement("span", { class: "badge" }, "model"),
      createElement("span", { class: "name" }, `${call.provider} / ${call.model}`),
      createElement("span", { class: "muted" }, formatDuration(call.seconds)));
    if (call.error) summary.append(createElement("span", { class: "badge is-bad" }, "failed"));
    return createElement("details", {}, summary,
      usage ? createElement("p", { class: "muted" }, `${usage.input_tokens} tokens in, ${usage.output_tokens} out, ${formatCost(call.cost_usd)}`) : null,
      textBlock("Error", call.error, "is-bad"));
  }

  function toolCall(call) {
    const summary = createElement("summary", {},
      createElement("span", { class: "badge is-accent" }, call.kind),
      createElement("span", { class: "name" }, call.name),
      createElement("span", { class: "muted" }, formatDuration(call.seconds)));
    if (call.error) summary.append(createElement("span", { class: "badge is-bad" }, "failed"));
    return createElement("details", {}, summary,
      textBlock("Arguments", call.arguments), textBlock("Result", call.result), textBlock("Error", call.error, "is-bad"),
      call.calls.length ? callList(call.calls) : null);
  }

  const callList = (calls) => createElement("ul", {},
    ...calls.map((call) => createElement("li", {}, call.object === "model_call" ? modelCall(call) : toolCall(call))));

  // Fills an element with a turn's summary and its calls.
  window.studio.renderTurn = (element, turn) => {
    const usage = turn.usage;
    element.replaceChildren(
      createElement("p", {}, createElement("span", { class: `badge ${turn.outcome === "ok" ? "is-good" : "is-warn"}` }, turn.outcome), " ",
        createElement("span", { class: "muted" }, `${turn.agent}, ${formatDuration(turn.seconds)}, ${usage.input_tokens} tokens in, ${usage.output_tokens} out, ${formatCost(turn.cost_usd)}`)),
      turn.error ? textBlock("Error", turn.error, "is-bad") : "",
      callList(turn.calls));
    element.querySelectorAll("details").forEach((details) => { details.open = turn.calls.length < 4; });
  };
})();
