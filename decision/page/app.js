// Which page it is, asked for again once a second and shown where it changed.
import {incidentPage} from "./incident.js";
import {jobsPage} from "./jobs.js";
import {TokenNeeded, tokenForm} from "./token.js";

const askAgainMs = 1000;
const incident = /^\/i\/(\d+)$/.exec(location.pathname);
const shown = new Map();  // sections by id: the text of their elements when they were drawn

// Only sections that changed are drawn anew, so that a reader, a focus and an open part stay where they are.
function show(main, sections) {
  const focused = document.activeElement?.id;
  const ids = sections.map((section) => section.id);
  if (ids.join() !== [...main.children].map((child) => child.id).join()) {
    const old = new Map([...main.children].map((child) => [child.id, child]));
    main.replaceChildren(...ids.map((id, i) => old.get(id) || sections[i]));
    for (const [id] of shown) if (!ids.includes(id)) shown.delete(id);
    for (const id of ids) if (!old.has(id)) shown.set(id, sections[ids.indexOf(id)].outerHTML);
  }
  sections.forEach((section, i) => {
    const text = section.outerHTML;
    if (shown.get(section.id) === text) return;
    shown.set(section.id, text);
    const before = main.children[i];
    if (before === section) return;
    for (const details of section.querySelectorAll("details")) details.open = before.querySelector(`#${details.id}`)?.open || false;
    before.replaceWith(section);
  });
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({preventScroll: true});
}

async function refresh() {
  const main = document.getElementById("main"), service = document.getElementById("service");
  // Whoever selects text to copy it keeps it.
  if (!document.getSelection().isCollapsed) return;
  try {
    const page = await (incident ? incidentPage(incident[1], refresh) : jobsPage());
    service.textContent = "";
    service.className = "";
    document.title = page.title;
    // Said by a screen reader, which the rest of the page does not interrupt.
    const news = document.getElementById("news");
    if (news.textContent !== page.news) news.textContent = page.news;
    show(main, page.sections);
    if (performance.getEntriesByName("shown").length === 0) performance.mark("shown");  // a test holds how long it took
  } catch (error) {
    if (error instanceof TokenNeeded) {
      service.textContent = "";
      show(main, [tokenForm(error.message, refresh)]);
      return;
    }
    service.textContent = error instanceof TypeError ? "The service does not answer; what is below is old." : error.message;
    service.className = "lost";
  }
}

for (;;) {
  if (!document.hidden) await refresh();
  await new Promise((done) => setTimeout(done, askAgainMs));
}
