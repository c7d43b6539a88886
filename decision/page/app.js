// The page: jobs and incidents at /, one incident at /i/<id>. It shows what the service's documents say, and asks again once
// a second; an unchanged document costs an answer without a body (ETag). It changes acknowledgements, nothing else. Texts go in as text, never as HTML.
"use strict";

const askAgainMs = 1000;
const chainBoxesMax = 12;

function element(tag, properties, ...children) {
  const e = document.createElement(tag);
  Object.assign(e, properties || {});
  for (const child of children) if (child !== null && child !== undefined) e.append(child);
  return e;
}

async function ask(path) {
  const response = await fetch(path, {cache: "no-cache"});
  const document = await response.json();
  if (!response.ok) throw new Error(document.error || `the service answers ${response.status}`);
  return document;
}

// ---- / ----

function jobItem(job) {
  const troubled = job.incidents.length > 0;
  const words = troubled ? `${job.incidents.length} open ${job.incidents.length === 1 ? "incident" : "incidents"}` : job.state === "ended" ? "ended" : "no open incident";
  return element("li", {},
    element("strong", {className: troubled ? job.incidents[0].state : "well", textContent: job.job || "(without a name)"}),
    element("span", {textContent: `  ${words}`}),
    element("div", {className: "about", textContent: `${job.communicator_count} communicators, ${job.process_count} processes, ${job.silent_process_count} silent, ${job.ended_process_count} ended`}),
    ...job.incidents.map((v) => element("div", {}, element("a", {href: `/i/${v.incident}`, textContent: `${v.kind}: ${v.title}`}))));
}

const isOpen = (v) => v.state === "suspected" || v.state === "confirmed";
const stateOf = (v) => [v.state, isOpen(v) && v.acknowledged ? "acknowledged" : "", v.silenced ? "silenced" : ""].filter(Boolean).join(", ");

function incidentItem(v) {
  const since = v.onset_time ? `since ${v.onset_time}` : "";
  return element("li", {},
    element("a", {href: `/i/${v.incident}`, textContent: `${v.kind}: ${v.title}`}),
    element("div", {className: "about"},
      element("span", {className: v.state, textContent: stateOf(v)}), ` ${v.class} · job ${v.job} · ${since}`));
}

async function showJobs(main) {
  const [reporting, incidents, openOnes] = await Promise.all(
    [ask("/v1/jobs?limit=1000"), ask("/v1/incidents"), ask("/v1/incidents?open=1&limit=1000")]);
  const jobs = reporting.jobs.map((job) => ({...job, incidents: openOnes.incidents.filter((v) => v.job === job.job)}));
  // However old, an open one is listed.
  const open = new Set(openOnes.incidents.map((v) => v.incident));
  const closed = incidents.incidents.filter((v) => !open.has(v.incident) && (v.state === "resolved" || v.state === "ended"));
  const ordered = [...[...openOnes.incidents].reverse(), ...closed.reverse()];
  main.replaceChildren(
    element("h1", {textContent: "Jobs"}),
    jobs.length ? element("ul", {className: "list"}, ...jobs.map(jobItem)) : element("p", {textContent: "No job reports to this service."}),
    element("h2", {textContent: "Incidents"}),
    ordered.length ? element("ul", {className: "list", id: "incidents"}, ...ordered.map(incidentItem))
                   : element("p", {className: "well", textContent: "None."}));
  document.title = open.size > 0 ? "(!) ccld" : "ccld";
}

// ---- /i/<id> ----

function copyButton(text) {
  const button = element("button", {type: "button", textContent: "Copy"});
  button.setAttribute("aria-label", `Copy the command ${text}`);
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

function paragraphs(rows, commands) {
  const list = element("dl");
  for (const row of rows) {
    list.append(element("dt", {textContent: row.label}));
    const command = commands.find((c) => row.verbatim && row.text === `${c.host || ""}$ ${c.command}`);
    list.append(command
      ? element("dd", {}, element("div", {className: "command"}, element("span", {textContent: `${command.host || ""}$`}),
                                  element("code", {textContent: command.command}), copyButton(command.command)))
      : element("dd", {className: row.verbatim ? "verbatim" : "", textContent: row.text}));
  }
  return list;
}

// The longest way of waits that ends at a culprit, as `ccld explain` has it; who else waits for a rank on it is counted
// beside it.
function chainOf(verdict) {
  const culprits = new Set(verdict.ranks);
  const next = new Map();
  for (const w of verdict.waits) if (w.communicator === null && !culprits.has(w.rank) && !next.has(w.rank)) next.set(w.rank, w);
  let longest = null;
  for (const start of [...next.keys()].sort((a, b) => a - b)) {
    const ranks = [start], arrows = [];
    while (next.has(ranks.at(-1)) && arrows.length < next.size) {
      const w = next.get(ranks.at(-1));
      arrows.push(w);
      ranks.push(w.waits_for);
    }
    if (culprits.has(ranks.at(-1)) && (longest === null || ranks.length >= longest.ranks.length)) longest = {ranks, arrows};
  }
  if (longest === null) return null;
  const others = (rank) => [...next.values()].filter((w) => w.waits_for === rank && !longest.ranks.includes(w.rank)).length;
  return {...longest, others};
}

function arrowText(w) {
  const parts = [];
  if (w.step_wanted !== null) parts.push(`step ${w.step_wanted}, has ${w.step_posted === null ? "none" : w.step_posted}`);
  if (w.channel !== null) parts.push(`channel ${w.channel}`);
  if (w.age_ms !== null) parts.push(w.age_ms < 1000 ? `${Math.round(w.age_ms)} ms` : `${(w.age_ms / 1000).toFixed(1)} s`);
  return parts.join(", ");
}

function chain(verdict) {
  const found = chainOf(verdict);
  if (!found) return null;
  const culprits = new Set(verdict.ranks);
  const list = element("ol", {className: "chain"});
  list.setAttribute("aria-label", "Who waits for whom; the last box is the culprit");
  const shown = found.ranks.length <= chainBoxesMax ? 0 : found.ranks.length - chainBoxesMax;
  if (shown > 0) list.append(element("li", {className: "box", textContent: `${shown} more ranks`}), element("li", {className: "arrow", textContent: "→"}));
  for (let i = shown; i < found.ranks.length; ++i) {
    const rank = found.ranks[i], others = found.others(rank);
    list.append(element("li", {className: culprits.has(rank) ? "box culprit" : "box"}, `rank ${rank}`,
                        others > 0 ? element("span", {className: "also", textContent: `${others} more wait for it`}) : null));
    if (i + 1 < found.ranks.length) list.append(element("li", {className: "arrow"}, element("div", {textContent: arrowText(found.arrows[i])}), "→"));
  }
  return element("section", {}, element("h2", {textContent: "Who waits for whom"}), list);
}

function bar(share, text, bad) {
  const span = element("span", {textContent: text});
  span.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  return element("div", {className: bad ? "bar bad" : "bar"}, span);
}

// The greatest share first. Ranks of one host that share what it costs are one cause.
function causesOf(verdict) {
  const causes = [];
  for (const c of verdict.culprits.filter((culprit) => culprit.lost_time_share > 0)) {
    const host = c.component === "host" ? c.host : "";
    const known = host ? causes.find((cause) => cause.host === host) : undefined;
    if (known) {
      known.share += c.lost_time_share;
      known.ranks += 1;
      continue;
    }
    const peer = c.peer === null ? "" : ` -> rank ${c.peer}`;
    causes.push({host, share: c.lost_time_share, ranks: 1, text: `${c.component} of rank ${c.rank}${peer}`});
  }
  for (const cause of causes) if (cause.ranks > 1) cause.text = `host ${cause.host} (${cause.ranks} ranks)`;
  return causes.sort((a, b) => b.share - a.share);
}

function loss(verdict) {
  const gain = verdict.gain;
  if (!gain) return null;
  const grid = element("div", {className: "bars"});
  const what = gain.of === "iteration" ? "An iteration" : "The operations of the window";
  grid.append(element("span", {textContent: `${what}, now`}), bar(1, `${gain.now_ms} ms`, true),
              element("span", {textContent: "without this"}), bar(gain.without_ms / gain.now_ms, `${gain.without_ms} ms`, false));
  for (const cause of causesOf(verdict)) {
    grid.append(element("span", {textContent: cause.text}), bar(cause.share, `${Math.round(100 * cause.share)} % of the loss`, true));
  }
  return element("section", {}, element("h2", {textContent: "Where the time goes"}), grid);
}

// ---- acknowledging ----

async function tell(path, body) {
  const response = await fetch(path, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
  const document = await response.json();
  if (!response.ok) throw new Error(document.error || `the service answers ${response.status}`);
}

// Name and note are asked for by the browser: a form on the page would be drawn anew under whoever fills it in.
function requestToAcknowledge(verdict) {
  if (verdict.acknowledged) return {undo: true};
  const by = prompt("Who is on it? Your name:", localStorage.getItem("ccld.name") || "");
  if (!by || !by.trim()) return null;
  localStorage.setItem("ccld.name", by.trim());
  const note = prompt("A note for others (may be empty):", "");
  return note === null ? null : {by: by.trim(), note};
}

function acknowledgeButton(verdict) {
  if (!isOpen(verdict)) return "";
  const words = verdict.acknowledged ? "Withdraw the acknowledgement" : "Acknowledge";
  const button = element("button", {type: "button", id: "acknowledge", textContent: words});
  button.addEventListener("click", async () => {
    try {
      const request = requestToAcknowledge(verdict);
      if (request === null) return;
      await tell(`/v1/incidents/${verdict.incident}/ack`, request);
      await refresh();
    } catch (error) {
      const service = document.getElementById("service");
      service.textContent = `Not acknowledged: ${error.message}`;
      service.className = "lost";
    }
  });
  return element("p", {}, button);
}

async function showIncident(main, id) {
  const page = await ask(`/page/incident/${id}`);
  const verdict = page.verdict;
  const wasOpen = main.querySelector("details")?.open || false;
  const details = element("details", {open: wasOpen}, element("summary", {textContent: "All numbers"}), paragraphs(page.all, []));
  main.replaceChildren(
    element("h1", {textContent: page.title}),
    element("p", {className: `state ${verdict.state}`, textContent: page.state}),
    paragraphs(page.short, verdict.commands),
    acknowledgeButton(verdict),
    chain(verdict) || "", loss(verdict) || "", details);
  document.title = `${page.title} - ccld`;
}

// ---- the loop ----

const incident = /^\/i\/(\d+)$/.exec(location.pathname);
let last = "";

async function refresh() {
  const main = document.getElementById("main"), service = document.getElementById("service");
  // Whoever selects text to copy it keeps it.
  if (!document.getSelection().isCollapsed) return;
  const next = element("main");
  if (main.querySelector("details")?.open) next.append(element("details", {open: true}));
  try {
    await (incident ? showIncident(next, incident[1]) : showJobs(next));
    service.textContent = "";
    service.className = "";
    if (next.innerHTML === last) return;
    last = next.innerHTML;
    main.replaceChildren(...next.childNodes);
  } catch (error) {
    service.textContent = error instanceof TypeError ? "The service does not answer; what is below is old." : error.message;
    service.className = "lost";
  }
}

(async () => {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((done) => setTimeout(done, askAgainMs));
  }
})();
