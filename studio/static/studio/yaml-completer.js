// What may stand at a place of coulisse.yaml, by its JSON Schema.
(() => {
  "use strict";

  const CHOICES = ["anyOf", "oneOf", "allOf"];

  // All that the schema says about a place: behind references, in each branch.
  function alternatives(root, node, found = []) {
    if (!node || typeof node !== "object" || found.includes(node)) return found;
    if (node.$ref) alternatives(root, root.$defs[node.$ref.replace("#/$defs/", "")], found);
    for (const word of CHOICES) for (const branch of node[word] ?? []) alternatives(root, branch, found);
    found.push(node);
    return found;
  }

  function below(root, nodes, step) {
    const children = nodes.map((node) => {
      if (typeof step === "number") return node.items;
      return node.properties?.[step] ?? (typeof node.additionalProperties === "object" ? node.additionalProperties : null);
    });
    return children.flatMap((child) => alternatives(root, child));
  }

  function at(root, steps) {
    return steps.reduce((nodes, step) => below(root, nodes, step), alternatives(root, root));
  }

  const indentOf = (line) => line.length - line.trimStart().length;
  const KEY = /^(?<lead>\s*(?:- +)*)(?<key>"[^"]*"|'[^']*'|[^\s#'"\-:][^:#]*?)\s*:(?:\s+(?<value>.*))?$/;
  const bare = (key) => key.replace(/^(["'])(.*)\1$/, "$2");

  // The steps to the map or value a row is in, and the keys that stand there already.
  function where(lines, row, column) {
    const line = lines[row].slice(0, column);
    const dashes = /^\s*(?:- +)*/.exec(line)[0];
    let edge = dashes.length;
    const steps = [];
    const present = new Set();
    const inItem = /-/.test(dashes);
    if (inItem) steps.unshift(0);
    const siblings = (from, by) => {
      for (let i = from; i >= 0 && i < lines.length; i += by) {
        const text = lines[i];
        if (!text.trim() || text.trimStart().startsWith("#")) continue;
        const match = KEY.exec(text);
        const start = match ? match.groups.lead.length : indentOf(text);
        if (indentOf(text) < edge && start < edge) break;
        if (by > 0 && /^\s*-/.test(text) && start <= edge) break;
        if (match && start === edge) {
          present.add(bare(match.groups.key));
          if (by < 0 && match.groups.lead.includes("-")) break;
        }
      }
    };
    if (!inItem) siblings(row - 1, -1);
    siblings(row + 1, 1);
    let limit = inItem ? indentOf(line) : edge;
    for (let i = row - 1; i >= 0 && (limit > 0 || inItem); i--) {
      const text = lines[i];
      if (!text.trim() || text.trimStart().startsWith("#")) continue;
      const indent = indentOf(text);
      const match = KEY.exec(text);
      const start = match ? match.groups.lead.length : indent;
      const opens = match && !(match.groups.value ?? "").replace(/^[&!]\S+\s*/, "").replace(/#.*/, "").trim();
      if (opens && (start < limit || (start === limit && steps[0] === 0 && !match.groups.lead.includes("-")))) {
        steps.unshift(bare(match.groups.key));
        limit = start;
        if (match.groups.lead.includes("-")) { steps.unshift(0); limit = indent; }
      } else if (match && match.groups.lead.includes("-") && start === limit && steps[0] !== 0) {
        steps.unshift(0);
        limit = indent;
      }
      if (limit === 0 && steps[0] !== 0) break;
    }
    return { steps, present };
  }

  function words(node) {
    if (node.const !== undefined) return [node.const];
    if (node.enum) return node.enum;
    return node.type === "boolean" ? [true, false] : [];
  }

  // Ace's own shape: caption, value, meta.
  function completions(schema, base, lines, row, column) {
    const line = lines[row].slice(0, column);
    if (/(^|\s)#/.test(line)) return [];
    const value = /^(?<lead>\s*(?:- +)*)(?<key>[^:#]+):\s+(?<typed>\S*)$/.exec(line);
    const { steps, present } = where(lines, row, column);
    if (value) {
      const nodes = at(schema, [...base, ...steps, bare(value.groups.key.trim())]);
      return [...new Set(nodes.flatMap(words))].filter((word) => word !== null && typeof word !== "object")
        .map((word) => ({ caption: String(word), value: String(word), meta: "value", score: 100 }));
    }
    if (!/^\s*(?:- +)*\S*$/.test(line)) return [];
    const nodes = at(schema, [...base, ...steps]);
    const found = new Map();
    for (const node of nodes)
      for (const [name, field] of Object.entries(node.properties ?? {}))
        if (!present.has(name) && !found.has(name)) found.set(name, { field, required: (node.required ?? []).includes(name) });
    const listed = [...found].map(([name, { field, required }]) => {
      const kinds = alternatives(schema, field);
      const nests = kinds.some((kind) => kind.properties || kind.items || kind.type === "object" || kind.type === "array");
      const plain = kinds.some((kind) => ["string", "integer", "number", "boolean"].includes(kind.type) || kind.enum || kind.const !== undefined);
      return {
        caption: name, value: `${name}:${nests && !plain ? "" : " "}`, meta: required ? "required" : "field", score: required ? 200 : 100,
        docText: [field.description, field.default !== undefined && field.default !== null ? `Default: ${JSON.stringify(field.default)}` : ""].filter(Boolean).join("\n\n"),
      };
    });
    const items = nodes.flatMap((node) => alternatives(schema, node.items)).flatMap(words);
    return [...listed, ...[...new Set(items)].map((word) => ({ caption: String(word), value: String(word), meta: "value", score: 100 }))];
  }

  window.studioYaml = { completions, where };
})();
