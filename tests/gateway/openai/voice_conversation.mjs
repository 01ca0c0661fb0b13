// Plays events of a provider to the conversation of examples/voice; prints what it sends.
import { argv, cwd, stdin } from "node:process";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const module = pathToFileURL(`${cwd()}/examples/voice/conversation.js`);
const { Conversation, createApi } = await import(module);
const [base, user, thread] = argv.slice(2);
const sent = [];
const conversation = new Conversation({
  api: createApi({ base, user }),
  agent: "assistant",
  thread,
  send: (event) => sent.push(event),
  show: () => {},
});
await conversation.recallThread();
for (const event of JSON.parse(await text(stdin))) await conversation.handle(event);
await conversation.end();
console.log(JSON.stringify(sent));
