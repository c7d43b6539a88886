// A hang: who waits for whom, and how far the ranks came in the operation.
import {bar, element} from "./dom.js";
import {count, duration, ranks} from "./words.js";

const boxesMax = 12;

// The longest way of waits that ends at a culprit, as `ccld explain` has it.
function longestWay(verdict) {
  const culprits = new Set(verdict.ranks);
  const next = new Map();
  for (const w of verdict.waits) if (w.communicator === null && !culprits.has(w.rank) && !next.has(w.rank)) next.set(w.rank, w);
  let longest = null;
  for (const start of [...next.keys()].sort((a, b) => a - b)) {
    const way = [start], arrows = [];
    while (next.has(way.at(-1)) && arrows.length < next.size) {
      const w = next.get(way.at(-1));
      arrows.push(w);
      way.push(w.waits_for);
    }
    if (culprits.has(way.at(-1)) && (longest === null || way.length >= longest.way.length)) longest = {way, arrows};
  }
  return longest && {...longest, next};
}

// Boxes from the farthest waiter to the culprit. Who waits for the same rank in the same way is one box; `also`: others
// who wait for that box, and are not on the way.
export function boxesOf(verdict) {
  const found = longestWay(verdict);
  if (!found) return null;
  const {way, arrows, next} = found;
  const waitersOf = (rank) => [...next.values()].filter((w) => w.waits_for === rank).map((w) => w.rank);
  const isWaitedFor = new Set([...next.values()].map((w) => w.waits_for));
  const equal = [...next.values()].filter((w) => w.waits_for === way[1] && w.what === arrows[0].what && !isWaitedFor.has(w.rank)).map((w) => w.rank);
  let boxes = way.map((rank, i) => ({ranks: i === 0 ? equal : [rank], arrow: arrows[i] || null, more: 0}));
  // The verdict tells some of the waits; of the others how many.
  const told = new Set([...next.keys(), ...verdict.ranks]);
  const untold = Math.max(0, verdict.victims.count - [...told].filter((rank) => !verdict.ranks.includes(rank)).length);
  boxes[0].more = untold;
  if (boxes.length > boxesMax) {
    const far = boxes.slice(0, boxes.length - boxesMax + 1);
    boxes = [{ranks: far.flatMap((b) => b.ranks), arrow: far.at(-1).arrow, more: untold}, ...boxes.slice(boxes.length - boxesMax + 1)];
  }
  const shown = new Set(boxes.flatMap((b) => b.ranks));
  return boxes.map((b, i) => ({
    ...b,
    text: b.more > 0 ? count(b.ranks.length + b.more, "rank") : ranks(b.ranks),
    culprit: i === boxes.length - 1,
    also: b.ranks.length === 1 ? waitersOf(b.ranks[0]).filter((rank) => !shown.has(rank)).length : 0,
  }));
}

const wordsFor = {entry: "its entry", call: "its call", slot: "a free slot", all_of_node: "all of the node", all_nodes: "all nodes"};

function arrowLines(w) {
  const lines = [];
  if (w.step_wanted !== null) lines.push(`step ${w.step_wanted} wanted, ${w.step_posted === null ? "none" : w.step_posted} posted`);
  else if (wordsFor[w.what]) lines.push(`waits for ${wordsFor[w.what]}`);
  const rest = [w.channel === null ? "" : `channel ${w.channel}`, w.age_ms === null ? "" : duration(w.age_ms)].filter(Boolean).join(", ");
  return rest ? [...lines, rest] : lines;
}

export function chainSection(verdict) {
  const boxes = boxesOf(verdict);
  if (!boxes) return null;
  const list = element("ol", {className: "chain", aria: {label: "Who waits for whom; the last one is the culprit"}});
  for (const box of boxes) {
    list.append(element("li", {className: box.culprit ? "box culprit" : "box"}, box.text,
                        box.culprit ? element("span", {className: "also", textContent: "culprit"}) : null,
                        box.also > 0 ? element("span", {className: "also", textContent: `${box.also} more ${box.also === 1 ? "waits" : "wait"} for it`}) : null));
    if (box.arrow) list.append(element("li", {className: "arrow"}, ...arrowLines(box.arrow).map((line) => element("div", {textContent: line})), "→"));
  }
  return element("section", {id: "chain"}, element("h2", {textContent: "Who waits for whom"}), list);
}

const stageWords = {entered: "entered", launched: "launched", begun: "begun on the GPU", completed: "done"};

function stageBars(communicator) {
  const all = communicator.ranks_seen;
  const grid = element("div", {className: "bars"});
  for (const stage of communicator.in_flight.progress) {
    const missing = all - stage.rank_count;
    const who = missing > 0 && missing <= stage.missing.length && missing < all ? `, not ${ranks(stage.missing)}` : "";
    grid.append(element("span", {textContent: stageWords[stage.stage]}), bar(all === 0 ? 0 : stage.rank_count / all, `${stage.rank_count} of ${count(all, "rank")}${who}`, false));
  }
  return grid;
}

// A square for each channel: those on which the rank waits for a step are filled.
function channelCells(row, channels) {
  const waits = new Set(row.waiting_channels);
  const said = waits.size === 0 ? "none" : [...waits].join(", ");
  const cells = Array.from({length: channels}, (_, channel) =>
    element("span", {className: waits.has(channel) ? "channel waits" : "channel", title: `channel ${channel}${waits.has(channel) ? ": waits" : ""}`, aria: {hidden: "true"}}));
  return element("td", {className: "channels"}, element("span", {className: "unseen", textContent: said}), ...cells);
}

function rankTable(rows, op, operation, culprits) {
  const reached = [(r) => r.entered >= op, (r) => Math.max(r.launched, r.completed) >= op, (r) => r.completed >= op || (r.begun && r.completed + 1 >= op), (r) => r.completed >= op];
  const channels = Math.max(operation.channels || 0, ...rows.flatMap((r) => r.waiting_channels.map((channel) => channel + 1)));
  const head = ["rank", "entered", "launched", "begun", "done", ...(channels > 0 ? ["waits on channels"] : [])];
  const body = rows.map((row) => element("tr", {className: culprits.has(row.rank) ? "culprit" : ""},
    element("th", {scope: "row", textContent: `${row.rank}${culprits.has(row.rank) ? ", culprit" : ""}`}),
    // What nobody has reached singles out nobody.
    ...reached.map((has) => element("td", {textContent: has(row) ? "yes" : "no", className: has(row) || !rows.some(has) ? "" : "missing"})),
    channels > 0 ? channelCells(row, channels) : null));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head.map((text) => element("th", {scope: "col", textContent: text})))), element("tbody", {}, ...body));
}

// `communicator`: its document, and of its first ranks theirs; null: not known (any more).
export function progressSection(verdict, communicator) {
  const flight = communicator && communicator.in_flight;
  if (!flight || !flight.progress || (verdict.op_seq !== null && flight.op_seq !== verdict.op_seq)) return null;
  const told = communicator.ranks.length > 0 && communicator.ranks[0].waiting_channels !== null;
  return element("section", {id: "progress"}, element("h2", {textContent: `How far the ranks are in ${flight.operation.function} #${flight.op_seq}`}),
    stageBars(communicator), told ? rankTable(communicator.ranks, flight.op_seq, flight.operation, new Set(verdict.ranks)) : null);
}
