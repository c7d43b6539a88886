// Everything that goes to the service and comes back, in one place.
import {hasToken, TokenNeeded, withToken} from "./token.js";

async function request(path, options) {
  const response = await fetch(path, {...options, headers: withToken(options.headers || {})});
  const document = await response.json();
  if (response.status === 401) throw new TokenNeeded(hasToken() ? document.error : "");
  if (!response.ok) throw new Error(document.error || `the service answers ${response.status}`);
  return document;
}

// An unchanged document costs an answer without a body: the browser keeps it and its ETag.
export function ask(path) {
  return request(path, {cache: "no-cache"});
}

export function tell(path, body) {
  return request(path, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
}

// For documents that need not be new at every look: the one from before, while its `key` is the same and it is younger
// than `ageMs`.
const kept = new Map();
export async function askSeldom(path, key, ageMs) {
  const before = kept.get(path);
  if (before && before.key === key && performance.now() - before.at < ageMs) return before.document;
  const document = await ask(path);
  kept.set(path, {key, at: performance.now(), document});
  return document;
}
