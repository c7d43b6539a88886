// The page /i/<id>: one incident.
import {acknowledgeButton, refusal} from "./acknowledge.js";
import {callsSection} from "./calls.js";
import {chainSection, progressSection} from "./chain.js";
import {command, element} from "./dom.js";
import {gainSection, lossSection} from "./loss.js";
import {ask} from "./service.js";
import {stripSection} from "./strip.js";
import {isOpen} from "./words.js";

function paragraphs(rows, commands) {
  const list = element("dl");
  rows.forEach((row, i) => {
    list.append(element("dt", {textContent: row.label}));
    const found = commands.find((c) => row.verbatim && row.text === `${c.host || ""}$ ${c.command}`);
    list.append(found ? element("dd", {}, command(found.host || "", found.command, `copy-${i}`))
                      : element("dd", {className: row.verbatim ? "verbatim" : "", textContent: row.text}));
  });
  return list;
}

// In the quotes of a shell, if it needs them.
const quoted = (path) => /^[\w./@:+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;

function takeAlong(verdict) {
  const rows = [];
  if (verdict.recording) {
    rows.push(["Recording", verdict.recording, "copy-recording"], ["Trace", `ccld trace ${quoted(verdict.recording)}`, "copy-trace"],
              ["Again", `ccld replay ${quoted(verdict.recording)}`, "copy-replay"]);
  }
  rows.push(["In a terminal", `ccld explain ${verdict.incident} --evidence`, "copy-explain"]);
  if (isOpen(verdict) && !verdict.acknowledged) rows.push(["Acknowledge", `ccld ack ${verdict.incident}`, "copy-ack"]);
  const list = element("dl");
  for (const [label, text, id] of rows) list.append(element("dt", {textContent: label}), element("dd", {}, command(null, text, id)));
  const none = verdict.recording ? null : element("p", {className: "about", textContent: isOpen(verdict)
    ? "A recording is written some seconds after the incident was reported, if the service keeps a state folder." : "There is no recording of it."});
  return element("section", {id: "take"}, element("h2", {textContent: "Take it along"}), list, none);
}

// With its ranks, if they are few enough to be looked at one by one.
const everyRankMax = 64;
async function communicatorWithRanks(verdict) {
  const path = `/v1/communicators/${verdict.communicator}`;
  const [communicator, ranks] = await Promise.all([ask(path), verdict.rank_count <= everyRankMax ? ask(`${path}/ranks?limit=${everyRankMax}`) : {ranks: []}]);
  return {...communicator, ranks: ranks.ranks};
}

export async function incidentPage(id, refresh) {
  const page = await ask(`/page/incident/${id}`);
  const verdict = page.verdict;
  const slow = verdict.kind === "SLOW", known = page.communicator_known;
  const [communicator, calls, strip] = await Promise.all([
    known && !slow && isOpen(verdict) ? communicatorWithRanks(verdict) : null,
    known && slow && isOpen(verdict) ? callsSection(verdict, refresh) : null,
    known ? stripSection(verdict) : null]);
  const all = element("section", {id: "all"}, element("details", {id: "all-numbers"}, element("summary", {id: "all-summary", textContent: "All numbers"}), paragraphs(page.all, [])));
  return {
    title: `${page.title} - ccld`,
    news: `${page.title}: ${page.state}`,
    sections: [
      element("section", {id: "head"}, element("h1", {textContent: page.title}), element("p", {className: `state ${verdict.state}`, textContent: page.state})),
      element("section", {id: "text"}, paragraphs(page.short, verdict.commands)),
      element("section", {id: "on-it"}, acknowledgeButton(verdict, refresh), refusal(verdict)),
      chainSection(verdict), progressSection(verdict, communicator),
      calls, lossSection(page.loss), gainSection(verdict),
      strip, takeAlong(verdict), all].filter(Boolean),
  };
}
