// Slowness: ranks by their newest calls, coloured by how late each came. Whoever is late all the time is a stripe.
import {timed} from "./cursor.js";
import {element} from "./dom.js";
import {heat, scale} from "./heat.js";
import {ask, askSeldom} from "./service.js";
import {count, duration, quantile, ranks} from "./words.js";

const everyRankMax = 64;      // so many have a row of their own with a name
const oneDocumentMax = 1000;  // so many come in one document
const worstShownMax = 12;
const largeAgeMs = 5000;      // documents of larger communicators are asked for less often
const leastScaleMs = 1;       // below, differences are noise and shall not shine,
const leastScalePart = 0.5;   // nor what is little of the time that a call takes

let chosenHost = "";  // the first one of the group that somebody wants to see rank by rank

// Of the one who is late the most; single pauses of others shall not pale it.
function scaleOf(document) {
  const most = document.worst.length > 0 ? quantile(document.worst[0].late_ms, 0.9) : null;
  return Math.max(leastScaleMs, most || 0, leastScalePart * callMs(document));
}

const callMs = (document) => quantile(document.calls.map((call) => call.longest_ms), 0.5) || 0;

function describe(row) {
  return `rank ${row.rank} on ${row.host}${row.gpu === null ? "" : `, GPU ${row.gpu}`}`;
}

function cellWords(who, call, ms) {
  const what = call ? `${call.function} #${call.op_seq}${call.replay === null ? "" : `, replay ${call.replay}`}` : "a call";
  return `${who}, ${what}: ${ms === null ? "not measured" : `${duration(ms)} late`}`;
}

const nameOf = (call) => `${call.op_seq}.${call.replay}`;

// Columns of calls and the time line below mark the same moment.
function columns(document, wordsAt) {
  const calls = document.calls, timeOf = (i) => Date.parse(calls[i].time);
  const columnOf = ({ms, call}) => {
    if (call !== undefined) return calls.findIndex((c) => nameOf(c) === call);
    if (ms === null || ms > Date.parse(document.time)) return -1;
    return calls.findLastIndex((_, i) => timeOf(i) <= ms);
  };
  return {
    momentAt: (part) => { const i = Math.floor(part * calls.length); return {ms: timeOf(i), call: nameOf(calls[i])}; },
    partOf: (moment) => { const i = columnOf(moment); return i < 0 ? null : (i + 0.5) / calls.length; },
    wordsOf: (moment) => wordsAt(columnOf(moment))};
}

const keyOf = (calls) => calls.length === 0 ? "" : `${calls[0].op_seq}-${calls.at(-1).op_seq}-${calls.at(-1).replay}`;

function namedRows(rows, document, most, culprits) {
  const list = element("div", {className: "lateness", aria: {role: "table", label: "How late each rank came, on average"}});
  for (const row of rows) {
    const culprit = culprits.has(row.rank);
    const mean = row.late_mean_ms === null ? "not measured" : duration(row.late_mean_ms);
    list.append(element("div", {className: culprit ? "row culprit" : "row", aria: {role: "row"}},
      element("span", {className: "who", aria: {role: "rowheader"}}, `rank ${row.rank}`,
              element("span", {className: "also", textContent: `${row.host}${row.gpu === null ? "" : `, GPU ${row.gpu}`}${culprit ? ", culprit" : ""}`})),
      timed(element("div", {className: "cells"}, heat([row.late_ms], most, {label: `${describe(row)}: ${mean} late on average`, key: `${row.rank} ${keyOf(document.calls)} ${most}`,
                                 tip: (_, i) => cellWords(describe(row), document.calls[i], row.late_ms[i])})),
        columns(document, (i) => culprit || (culprits.size === 0 && row === rows[0]) ? cellWords(describe(row), document.calls[i], row.late_ms[i]) : "")),
      element("span", {className: "mean", aria: {role: "cell"}, textContent: mean})));
  }
  return list;
}

function allRanks(rows, document, most, title) {
  return element("div", {}, element("h3", {textContent: title}),
    heat(rows.map((row) => row.late_ms), most, {label: `How late each of ${count(rows.length, "rank")} came; the worst are listed above`,
      key: `${title} ${keyOf(document.calls)} ${most}`, tip: (r, i) => cellWords(describe(rows[r]), document.calls[i], rows[r].late_ms[i])}));
}

const groupName = (g) => g.host_count === 1 ? g.first_host : `${g.first_host} to ${g.last_host} (${count(g.host_count, "host")})`;

function allGroups(document, most) {
  const groups = document.groups;
  return element("div", {}, element("h3", {textContent: `All ${count(document.rank_count, "rank")}, by host: the latest of each`}),
    heat(groups.map((g) => g.max_ms), most, {label: `The latest rank of each of ${groups.length} groups of hosts; the worst ranks are listed above`,
      key: `groups ${keyOf(document.calls)} ${most}`,
      tip: (g, i) => `${cellWords(`latest of ${groupName(groups[g])}`, document.calls[i], groups[g].max_ms[i])}; median ${duration(groups[g].median_ms[i])}`}));
}

// One group rank by rank, asked for when somebody wants it.
async function oneGroup(document, most, refresh) {
  const chosen = document.groups.find((g) => chosenHost !== "" && g.first_host === chosenHost);
  const select = element("select", {id: "group"}, element("option", {value: "", textContent: "choose hosts"}),
    ...document.groups.map((g) => element("option", {value: g.first_host, defaultSelected: g === chosen, textContent: `${groupName(g)}: ${count(g.rank_count, "rank")}`})));
  select.addEventListener("change", () => {
    chosenHost = select.value;
    refresh();
  });
  const parts = [element("label", {htmlFor: "group", textContent: "Ranks of: "}), select];
  if (chosen) {
    const path = `/v1/communicators/${document.communicator}/calls/ranks?limit=${Math.min(oneDocumentMax, chosen.rank_count)}${chosen.after ? `&after=${chosen.after}` : ""}`;
    const rows = (await askSeldom(path, keyOf(document.calls), largeAgeMs)).ranks;
    if (rows.length > 0) parts.push(allRanks(rows, document, most, `${count(rows.length, "rank")} of ${groupName(chosen)}`));
  }
  return element("div", {}, ...parts);
}

function sentence(document, culprits) {
  const worst = document.worst;
  if (worst.length === 0) return "";
  const late = worst.filter((row) => culprits.has(row.rank));
  const others = worst.filter((row) => !culprits.has(row.rank));
  if (late.length === 0) return `No rank comes late all the time: ${ranks([worst[0].rank])} ${duration(worst[0].late_mean_ms)} on average, the most of all, and a call takes ${duration(callMs(document))}.`;
  const least = others.length > 0 ? `; the next one, rank ${others[0].rank}, ${duration(others[0].late_mean_ms)}` : "";
  return `${late.map((row) => `Rank ${row.rank} comes ${duration(row.late_mean_ms)} late on average`).join(", ")}${least}.`;
}

// null: nothing is recorded.
export async function callsSection(verdict, refresh) {
  const path = `/v1/communicators/${verdict.communicator}/calls`;
  const large = verdict.rank_count > everyRankMax;
  const document = large ? await askSeldom(path, "", largeAgeMs) : await ask(path);
  const section = element("section", {id: "calls"}, element("h2", {textContent: `Who came late to the last ${count(document.calls.length, "call")}`}));
  if (document.calls.length === 0) {
    if (document.recorded) section.append(element("p", {className: "about", textContent: "No call has ended since this was suspected."}));
    return document.recorded ? section : null;
  }
  // A connection's culprit is no rank that comes late.
  const culprits = new Set(verdict.culprits.filter((c) => c.peer === null).map((c) => c.rank));
  const most = scaleOf(document);
  section.append(element("p", {textContent: sentence(document, culprits)}), scale(most, `${duration(most)} late or more`));
  if (!large) {
    const all = await ask(`${path}/ranks?limit=${everyRankMax}`);
    section.append(namedRows(all.ranks, document, most, culprits));
  } else {
    const more = document.worst.slice(worstShownMax);
    section.append(namedRows(document.worst.slice(0, worstShownMax), document, most, culprits));
    if (more.length > 0) section.append(element("details", {id: "more-ranks"}, element("summary", {id: "more-summary", textContent: `the next ${more.length}`}), namedRows(more, document, most, culprits)));
    if (document.rank_count <= oneDocumentMax) {
      const all = await askSeldom(`${path}/ranks?limit=${oneDocumentMax}`, keyOf(document.calls), largeAgeMs);
      section.append(allRanks(all.ranks, document, most, `All ${count(all.ranks.length, "rank")}, by host`));
    } else {
      section.append(allGroups(document, most), await oneGroup(document, most, refresh));
    }
  }
  section.append(element("p", {className: "about", textContent: "Each column is a call, the newest on the right."}));
  return section;
}
