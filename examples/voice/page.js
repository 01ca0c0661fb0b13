// The page: a key from our server, a WebRTC connection to the provider.
import { Conversation, createApi } from "./conversation.js";

const element = (id) => document.getElementById(id);
let call = null;

async function start() {
  const [base, agent, user, thread, token] = ["base", "agent", "user", "thread", "token"].map(
    (id) => element(id).value.trim(),
  );
  const api = createApi({ base, user, token });
  const secret = await api("/v1/realtime/client_secrets", {
    body: { session: { type: "realtime", model: agent }, metadata: { thread_id: thread } },
  });
  const connection = new RTCPeerConnection();
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
  connection.addTrack(microphone.getTracks()[0], microphone);
  connection.ontrack = ({ streams }) => (element("speaker").srcObject = streams[0]);
  const channel = connection.createDataChannel("oai-events");
  const conversation = new Conversation({
    api,
    agent,
    thread,
    send: (event) => channel.send(JSON.stringify(event)),
    show,
  });
  channel.onopen = () => conversation.recallThread().catch(report);
  channel.onmessage = ({ data }) => conversation.handle(JSON.parse(data)).catch(report);
  call = { connection, microphone, conversation };
  await connection.setLocalDescription(await connection.createOffer());
  const answer = await fetch(secret.coulisse.calls_url, {
    method: "POST",
    headers: { Authorization: `Bearer ${secret.value}`, "Content-Type": "application/sdp" },
    body: connection.localDescription.sdp,
  });
  if (!answer.ok) throw new Error(`The provider refused the connection: ${answer.status}`);
  await connection.setRemoteDescription({ type: "answer", sdp: await answer.text() });
}

async function end() {
  const { connection, microphone, conversation } = call;
  call = null;
  microphone.getTracks().forEach((track) => track.stop());
  connection.close();
  await conversation.end();
}

function show(speaker, text) {
  const line = document.createElement("li");
  line.textContent = `${speaker}: ${text}`;
  element("log").append(line);
}

function report(problem) {
  element("problem").textContent = problem.message;
}

function whileRunning(action) {
  return async (event) => {
    event.preventDefault();
    element("problem").textContent = "";
    await action().catch(report);
    element("start").disabled = call !== null;
    element("end").disabled = call === null;
  };
}

document.querySelector("form").onsubmit = whileRunning(start);
element("end").onclick = whileRunning(end);
