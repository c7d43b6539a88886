// The last quarter of an hour of a communicator: how many calls, how long they took, and when the incident began.
import {cursorWords, timed} from "./cursor.js";
import {element, svg} from "./dom.js";
import {ask, askSeldom} from "./service.js";
import {count, duration, quantile} from "./words.js";

const minutesMax = 15, minutesMin = 2;
const msPerMinute = 60000;
const height = 40;

const clock = (time) => new Date(time).toLocaleTimeString([], {hour12: false});

// Values side by side, from below. `layers`: the ones behind come first.
function bars(layers, spanMs, bucketMs, untilMs, fromMs, most, label) {
  const picture = svg("svg", {viewBox: `0 0 1000 ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label});
  const width = 1000 * bucketMs / spanMs;
  for (const {values, kind} of layers) {
    values.forEach((value, i) => {
      const x = 1000 * (1 - (untilMs - fromMs - i * bucketMs) / spanMs);
      if (!value || x + width <= 0) return;
      const tall = Math.max(1, height * value / most);
      picture.append(svg("rect", {class: kind, x: x.toFixed(1), y: (height - tall).toFixed(1), width: Math.max(0.5, width - 1).toFixed(1), height: tall.toFixed(1)}));
    });
  }
  return picture;
}

function marker(at, spanMs, untilMs, kind, title) {
  const part = 1 - (untilMs - Date.parse(at)) / spanMs;
  if (part < 0 || part > 1) return null;
  const line = element("div", {className: `marker ${kind}`, title});
  line.style.left = `${(100 * part).toFixed(2)}%`;
  return line;
}

function markers(verdict, revisions, spanMs, untilMs) {
  const lines = revisions.map((r) =>
    marker(r.time, spanMs, untilMs, "revision", `revision ${r.revision}, ${clock(r.time)}: ${r.state}, ${r.title}`));
  for (const e of verdict.evidence) {
    if (e.time) lines.push(marker(e.time, spanMs, untilMs, "seen", `${clock(e.time)}: ${e.what}${e.rank === null ? "" : `, rank ${e.rank}`}: ${e.value} ${e.unit}`));
  }
  lines.push(verdict.onset_time ? marker(verdict.onset_time, spanMs, untilMs, "onset", `onset ${clock(verdict.onset_time)}`) : null);
  return lines;
}

function markerWords(verdict, revisions) {
  const after = (time) => time && verdict.onset_time ? `${duration(Date.parse(time) - Date.parse(verdict.onset_time))} later` : null;
  const parts = [verdict.onset_time ? `onset ${clock(verdict.onset_time)}` : "", verdict.suspected_time ? `suspected ${after(verdict.suspected_time)}` : "",
                 verdict.confirmed_time ? `confirmed ${after(verdict.confirmed_time)}` : "", verdict.resolved_time ? `${verdict.state} ${after(verdict.resolved_time)}` : ""];
  const seen = verdict.evidence.filter((e) => e.time).map((e) => `${e.what} ${clock(e.time)}`);
  return [parts.filter(Boolean).join(", "), count(revisions.length, "revision"), ...seen].join("; ");
}

// "12 calls a second before the onset, 3 since" and the same of durations.
function changeWords(document, values, onset, words) {
  const bucketMs = 1000 * document.bucket_s, from = Date.parse(document.from_time);
  const begin = (i) => from + i * bucketMs;
  const before = quantile(values.filter((_, i) => begin(i) + bucketMs <= onset), 0.5), since = quantile(values.filter((_, i) => begin(i) >= onset), 0.5);
  if (before === null || since === null) return null;
  return `${words(before)} before the onset, ${words(since)} since`;
}

// null: nothing is known of the communicator's calls.
export async function stripSection(verdict) {
  const [document, revisions] = await Promise.all([
    ask(`/v1/communicators/${verdict.communicator}/history`),
    askSeldom(`/v1/incidents/${verdict.incident}?revisions=1`, verdict.revision, Infinity)]);
  if (document.from_time === null) return null;
  const bucketMs = 1000 * document.bucket_s, from = Date.parse(document.from_time), until = Date.parse(document.time);
  const minutes = Math.min(minutesMax, Math.max(minutesMin, Math.ceil((until - from) / msPerMinute)));
  const span = minutes * msPerMinute;
  const rates = document.calls.map((n) => n / document.bucket_s);
  const rateMost = Math.max(...rates, 0.1), timeMost = Math.max(...document.longest_ms.map((ms) => ms || 0), 0.001);
  const onset = verdict.onset_time ? Date.parse(verdict.onset_time) : until;
  const rateWords = (rate) => `${rate >= 10 ? Math.round(rate) : Number(rate.toPrecision(2))} calls a second`;
  const rateChange = changeWords(document, rates, onset, rateWords), timeChange = changeWords(document, document.longest_ms, onset, duration);
  const bucketOf = (ms) => Math.floor((ms - from) / bucketMs);
  const onTime = (values, words) => ({
    momentAt: (part) => ({ms: until - (1 - part) * span}),
    partOf: ({ms}) => ms === null || ms > until || ms < until - span ? null : 1 - (until - ms) / span,
    wordsOf: ({ms}) => { const value = values[bucketOf(ms)]; return value === null || value === undefined ? "" : words(value); },
    step: bucketMs / span});
  const panel = (id, caption, most, picture, of) => element("div", {className: "panel"}, element("div", {className: "caption"}, element("span", {textContent: caption}), element("span", {textContent: most})),
    timed(element("div", {className: "plot", id}, picture, ...markers(verdict, revisions.revisions, span, until)), of));
  return element("section", {id: "strip"},
    element("h2", {textContent: `Calls of the communicator, last ${minutes} minutes`}),
    panel("plot-rate", rateChange ? `Rate: ${rateChange}` : "Rate", `up to ${rateWords(rateMost)}`, bars([{values: rates, kind: "rate"}], span, bucketMs, until, from, rateMost, rateChange || "calls a second"), onTime(rates, rateWords)),
    panel("plot-duration", timeChange ? `Duration of a call: ${timeChange}` : "Duration of a call", `up to ${duration(timeMost)}`,
      bars([{values: document.longest_ms, kind: "waiting"}, {values: document.shortest_ms, kind: "transfer"}], span, bucketMs, until, from, timeMost, timeChange || "duration of a call"),
      onTime(document.longest_ms, (ms) => `a call takes ${duration(ms)}`)),
    element("div", {className: "axis"}, element("span", {textContent: `${minutes} min ago`}), element("span", {textContent: "now"})),
    cursorWords("Point at a picture, or use the arrow keys in one of these two: the same moment is marked in all."),
    element("p", {className: "about"}, element("span", {className: "key transfer"}), "data moves ", element("span", {className: "key waiting"}), "waiting for the last rank ",
      element("span", {className: "key onset"}), markerWords(verdict, revisions.revisions)));
}
