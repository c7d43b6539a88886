// Draws rows of numbers as rows of coloured cells: one pixel each, which the style sheet stretches.
import {element} from "./dom.js";

const rowsMax = 240;  // more would be thinner than two pixels of a screen

function rgb(name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// Of several rows the greatest: a late rank stays visible.
function pooled(rows) {
  const each = Math.ceil(rows.length / rowsMax);
  if (each <= 1) return rows;
  const pools = [];
  for (let i = 0; i < rows.length; i += each) {
    const pool = rows.slice(i, i + each);
    pools.push(pool[0].map((_, column) => pool.reduce((most, row) => row[column] === null ? most : Math.max(most ?? 0, row[column]), null)));
  }
  return pools;
}

// `rows`: of equal length; null: not known. `most`: what has the full colour. `tip(row, column)`: the words for a cell.
export function heat(rows, most, {label, tip, key}) {
  const drawn = pooled(rows);
  const canvas = element("canvas", {className: "heat", width: Math.max(1, drawn[0]?.length || 0), height: Math.max(1, drawn.length), aria: {role: "img", label}});
  // What is drawn is not in the text of the element, by which the page tells whether it changed.
  canvas.dataset.key = key;
  canvas.style.setProperty("--rows", drawn.length);
  const cold = rgb("--cold"), hot = rgb("--hot"), unknown = rgb("--ground");
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  drawn.forEach((row, y) => row.forEach((value, x) => {
    const part = value === null ? 0 : Math.min(1, value / most);
    const colour = value === null ? unknown : cold.map((from, i) => from + part * (hot[i] - from));
    image.data.set([...colour, 255], 4 * (y * canvas.width + x));
  }));
  context.putImageData(image, 0, 0);
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const part = (at, from, size) => Math.max(0, Math.min(0.9999, (at - from) / size));
    return [Math.floor(part(event.clientY, box.top, box.height) * rows.length), Math.floor(part(event.clientX, box.left, box.width) * canvas.width)];
  };
  if (rows.length > 0) canvas.addEventListener("pointermove", (event) => { canvas.title = tip(...cellAt(event)); });
  return canvas;
}

// The colours and what they mean.
export function scale(most, text) {
  return element("div", {className: "scale", aria: {hidden: "true"}}, element("span", {textContent: "on time"}), element("span", {className: "ramp"}),
                 element("span", {textContent: text}));
}
