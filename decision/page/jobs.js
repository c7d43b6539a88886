// The page /: jobs and incidents, troubled ones first.
import {element} from "./dom.js";
import {ask} from "./service.js";
import {count, isOpen} from "./words.js";

// One that is read from the right does not turn what stands beside it.
const nameOf = (name) => element("bdi", {textContent: name});

function jobItem(job) {
  const troubled = job.incidents.length > 0;
  const words = troubled ? `${job.incidents.length} open ${job.incidents.length === 1 ? "incident" : "incidents"}` : job.state === "ended" ? "ended" : "no open incident";
  return element("li", {},
    element("strong", {className: troubled ? job.incidents[0].state : "well"}, nameOf(job.job || "(without a name)")),
    element("span", {textContent: `  ${words}`}),
    element("div", {className: "about", textContent: `${count(job.communicator_count, "communicator")}, ${count(job.process_count, "process", "processes")}, ${job.silent_process_count} silent, ${job.ended_process_count} ended`}),
    ...job.incidents.map((v) => element("div", {}, element("a", {href: `/i/${v.incident}`, textContent: `${v.kind}: ${v.title}`}))));
}

const stateOf = (v) => [v.state, isOpen(v) && v.acknowledged ? "acknowledged" : "", v.silenced ? "silenced" : ""].filter(Boolean).join(", ");

function incidentItem(v) {
  const since = v.onset_time ? `since ${v.onset_time}` : "";
  return element("li", {},
    element("a", {href: `/i/${v.incident}`, textContent: `${v.kind}: ${v.title}`}),
    element("div", {className: "about"},
      element("span", {className: v.state, textContent: stateOf(v)}), ` ${v.class} · job `, nameOf(v.job), ` · ${since}`));
}

export async function jobsPage() {
  const [reporting, incidents, openOnes] = await Promise.all(
    [ask("/v1/jobs?limit=1000"), ask("/v1/incidents"), ask("/v1/incidents?open=1&limit=1000")]);
  const jobs = reporting.jobs.map((job) => ({...job, incidents: openOnes.incidents.filter((v) => v.job === job.job)}));
  // However old, an open one is listed.
  const open = new Set(openOnes.incidents.map((v) => v.incident));
  const closed = incidents.incidents.filter((v) => !open.has(v.incident) && !isOpen(v));
  const ordered = [...[...openOnes.incidents].reverse(), ...closed.reverse()];
  return {
    title: open.size > 0 ? "(!) ccld" : "ccld",
    news: count(open.size, "open incident"),
    sections: [
      element("section", {id: "jobs"}, element("h1", {textContent: "Jobs"}),
        jobs.length ? element("ul", {className: "list"}, ...jobs.map(jobItem)) : element("p", {textContent: "No job reports to this service."})),
      element("section", {id: "incidents"}, element("h2", {textContent: "Incidents"}),
        ordered.length ? element("ul", {className: "list"}, ...ordered.map(incidentItem)) : element("p", {className: "well", textContent: "None."}))],
  };
}
