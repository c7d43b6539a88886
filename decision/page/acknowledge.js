// Somebody is on it: the one thing that the page changes.
import {element} from "./dom.js";
import {tell} from "./service.js";
import {isOpen} from "./words.js";

let refused = null;  // what the service said of the last click, and of which incident

// Name and note are asked for by the browser: a form on the page would be drawn anew under whoever fills it in.
function requestToAcknowledge(verdict) {
  if (verdict.acknowledged) return {undo: true};
  const by = prompt("Who is on it? Your name:", localStorage.getItem("ccld.name") || "");
  if (!by || !by.trim()) return null;
  localStorage.setItem("ccld.name", by.trim());
  const note = prompt("A note for others (may be empty):", "");
  return note === null ? null : {by: by.trim(), note};
}

export function acknowledgeButton(verdict, refresh) {
  if (!isOpen(verdict)) return null;
  const words = verdict.acknowledged ? "Withdraw the acknowledgement" : "Acknowledge";
  const button = element("button", {type: "button", id: "acknowledge", textContent: words});
  button.addEventListener("click", async () => {
    try {
      const request = requestToAcknowledge(verdict);
      if (request === null) return;
      refused = null;
      await tell(`/v1/incidents/${verdict.incident}/ack`, request);
    } catch (error) {
      refused = {incident: verdict.incident, text: `${words} failed: ${error.message}`};
    }
    await refresh();
  });
  return button;
}

// Until the next click: whoever clicked must not take it for done.
export function refusal(verdict) {
  if (refused?.incident !== verdict.incident) return null;
  return element("p", {id: "refused", className: "lost", textContent: refused.text, aria: {role: "alert"}});
}
