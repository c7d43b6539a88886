// Slowness: where on the way of the data the time is lost, and what an iteration would take without the cause.
import {bar, element} from "./dom.js";
import {duration, percent, ranks} from "./words.js";

const partWords = {
  host: "host", gpu: "GPU", send_proxy: "send proxy", wire: "NIC and wire", receive_proxy: "receive proxy", receiving_gpu: "receiving GPU",
};

export function lossSection(loss) {
  if (loss.length === 0) return null;
  const list = element("ol", {className: "parts", aria: {label: "Where the loss lies, in the order in which data passes"}});
  for (const part of loss) {
    const box = element("li", {className: part.share > 0 ? "part hit" : "part"},
      element("span", {textContent: partWords[part.part]}),
      element("strong", {textContent: percent(part.share)}),
      element("span", {className: "also", textContent: part.ranks.length > 0 ? ranks(part.ranks) : ""}));
    box.style.setProperty("--share", percent(part.share).replace(" ", ""));
    list.append(box);
  }
  return element("section", {id: "loss"}, element("h2", {textContent: "Where the loss lies"}), list);
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

export function gainSection(verdict) {
  const gain = verdict.gain;
  if (!gain) return null;
  const grid = element("div", {className: "bars"});
  const what = gain.of === "iteration" ? "An iteration" : "The operations compared";
  grid.append(element("span", {textContent: `${what}, now`}), bar(1, duration(gain.now_ms), true),
              element("span", {textContent: "without the cause"}), bar(gain.without_ms / gain.now_ms, duration(gain.without_ms), false));
  const causes = causesOf(verdict);
  if (causes.length > 1)
    for (const cause of causes) grid.append(element("span", {textContent: cause.text}), bar(cause.share, `${percent(cause.share)} of the loss`, true));
  return element("section", {id: "gain"}, element("h2", {textContent: gain.of === "iteration" ? "Iteration time" : "Time"}), grid);
}
