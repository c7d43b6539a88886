// The token, where the service demands one: asked for once, kept until the tab is closed.
import {element} from "./dom.js";

const tokenName = "ccld.token";

// The service wants a token, or another one; the message says what is wrong with the one that it got.
export class TokenNeeded extends Error {}

export function hasToken() {
  return sessionStorage.getItem(tokenName) !== null;
}

export function withToken(headers) {
  const token = sessionStorage.getItem(tokenName);
  return token ? {...headers, Authorization: `Bearer ${token}`} : headers;
}

function takeToken(text, used) {
  const token = text.trim();
  if (!/^[\x21-\x7e]+$/.test(token)) return;  // it becomes part of a header
  sessionStorage.setItem(tokenName, token);
  used();
}

// The same elements while the reason is the same, so that whoever types is not disturbed. `used`: called with a new token.
export function tokenForm(why, used) {
  const input = element("input", {type: "password", id: "token", autocomplete: "off"});
  const button = element("button", {type: "button", id: "use-token", textContent: "Use it"});
  button.addEventListener("click", () => takeToken(input.value, used));
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") takeToken(input.value, used); });
  return element("section", {id: "token-form"},
    element("h1", {textContent: "This service demands a token"}),
    element("p", {}, element("label", {htmlFor: "token", textContent: "Token "}), input, " ", button),
    element("p", {id: "token-error", className: "about", textContent: why}),
    element("p", {className: "about", textContent: "It is kept until this tab is closed. On the service's host ccld tokens add makes one."}));
}
