// One moment, marked in every picture that has a time line, and what each of them says of it: by pointer, or by the arrow
// keys where a picture has the focus.
//
// A moment is {ms} or {ms, call}: `call` names a column of calls, `ms` may be null where nobody knows when that was.
import {element} from "./dom.js";

let moment = null;  // null: none is marked

function place(picture) {
  const part = moment === null ? null : picture.partOf(moment);
  picture.cursor.hidden = part === null;
  picture.cursor.style.left = part === null ? "" : `${(100 * part).toFixed(2)}%`;
}

function words() {
  if (moment === null) return "";
  const time = moment.ms === null ? "" : new Date(moment.ms).toLocaleTimeString([], {hour12: false});
  const parts = [...document.querySelectorAll(".timed")].map((picture) => picture.partOf(moment) === null ? "" : picture.wordsOf(moment));
  const said = [...new Set(parts.filter(Boolean))].join("; ");
  return [time, said].filter(Boolean).join(": ");
}

function mark(next) {
  moment = next;
  for (const picture of document.querySelectorAll(".timed")) place(picture);
  for (const line of document.querySelectorAll(".cursor-words")) line.textContent = words() || line.dataset.hint;
}

// `momentAt(part)`: of a place from 0 (left) to 1; `partOf(moment)`: the place, null: outside; `wordsOf(moment)`: what to say.
// `step`: how far an arrow key goes; none: the picture takes no focus.
export function timed(picture, {momentAt, partOf, wordsOf, step}) {
  picture.classList.add("timed");
  Object.assign(picture, {partOf, wordsOf, cursor: element("div", {className: "cursor"})});
  picture.append(picture.cursor);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    mark(momentAt(Math.max(0, Math.min(0.9999, (event.clientX - box.left) / box.width))));
  });
  picture.addEventListener("pointerleave", () => mark(null));
  if (step) {
    picture.tabIndex = 0;
    picture.addEventListener("keydown", (event) => {
      const by = {ArrowLeft: -step, ArrowRight: step}[event.key];
      if (event.key === "Escape") mark(null);
      if (by === undefined) return;
      event.preventDefault();
      const from = moment === null ? null : partOf(moment);
      mark(momentAt(from === null ? 0.9999 : Math.max(0, Math.min(0.9999, from + by))));
    });
  }
  place(picture);
  return picture;
}

// Where the words stand; `hint`: while nothing is marked.
export function cursorWords(hint) {
  const line = element("p", {className: "about cursor-words", aria: {live: "polite"}, textContent: words() || hint});
  line.dataset.hint = hint;
  return line;
}
