// Makes elements. Texts go in as text, never as HTML: what a job is called cannot become a script.

function add(parent, children) {
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== "") parent.append(child);
  return parent;
}

export function element(tag, properties, ...children) {
  const e = document.createElement(tag);
  const {aria, ...rest} = properties || {};
  Object.assign(e, rest);
  for (const [name, value] of Object.entries(aria || {})) e.setAttribute(name === "role" ? name : `aria-${name}`, value);
  return add(e, children);
}

export function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  return add(e, children);
}

// `id`: so that a button keeps the focus when its part of the page is drawn anew.
export function copyButton(text, id) {
  const button = element("button", {type: "button", id, textContent: "Copy", aria: {label: `Copy: ${text}`}});
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it by hand";
    }
  });
  return button;
}

export function command(host, text, id) {
  return element("div", {className: "command"}, host === null ? null : element("span", {textContent: `${host}$`}),
                 element("code", {textContent: text}), copyButton(text, id));
}

export function bar(share, text, bad) {
  const span = element("span", {textContent: text});
  span.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  return element("div", {className: share <= 0 ? "bar none" : bad ? "bar bad" : "bar"}, span);
}
