// The page of cuvee serve: it asks the server of this address alone, with a token that this tab keeps.
import { Mixture, bars, coefficients, number, simplex } from "./mixture.js";

const KEY = "cuvee-token";
const OWN = "(own sample)";
const at = (id) => document.getElementById(id);
let token = sessionStorage.getItem(KEY) || "";
let sources = [];

class Refused extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

async function ask(path, options = {}) {
  const headers = { Authorization: `Bearer ${token}`, ...options.headers };
  let answered;
  try {
    answered = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch {
    throw new Refused(0, "the server does not answer; is it still running?");
  }
  if (answered.ok) return answered;
  const problem = await answered.json().catch(() => ({}));
  throw new Refused(answered.status, problem.detail || `the server answered ${answered.status}`);
}

const json = async (path, options) => (await ask(path, options)).json();
const post = (path, content) => json(path, { method: "POST", body: JSON.stringify(content), headers: { "Content-Type": "application/json" } });
const url = (name) => `v1/targets/${encodeURIComponent(name)}`;

// ---- entering and leaving

async function enter() {
  try {
    await overview();
    sources = await known();
  } catch (error) {
    if (error.status !== 401) throw error;
    token = "";
    sessionStorage.removeItem(KEY);
    at("refused").textContent = `${error.message[0].toUpperCase()}${error.message.slice(1)}.`;
    at("token").value = "";
    at("token").focus();
    return;
  }
  sessionStorage.setItem(KEY, token);
  at("enter").hidden = true;
  at("contents").hidden = at("main").hidden = false;
  if (sources.length) await choose(at("target").value);
}

// Without the table of the run there are neither mixtures nor new targets, and the page says why.
async function known() {
  try {
    return (await json("v1/sources")).sources;
  } catch (error) {
    if (error.status !== 409) throw error;
    for (const id of ["whatif", "new"]) at(id).querySelectorAll(":scope > :not(h2)").forEach((part) => { part.hidden = true; });
    for (const id of ["whatif", "new"]) at(id).append(Object.assign(document.createElement("p"), { className: "wrong", textContent: error.message }));
    return [];
  }
}

// The server's own markup, in which every name is escaped, and which may run no script.
async function overview() {
  const page = new DOMParser().parseFromString(await (await ask("v1/overview")).text(), "text/html");
  for (const part of page.querySelectorAll("[data-for]")) at(part.dataset.for).replaceChildren(...part.childNodes);
  const names = [];
  for (let total = 1; names.length < total; ) {
    const found = await json(`v1/targets?limit=1000&offset=${names.length}`);
    total = found.targets.length ? found.total : 0;
    names.push(...found.targets.map((one) => one.name));
  }
  const chosen = at("target").value;
  at("target").replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(chosen)) at("target").value = chosen;
}

at("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("refused").textContent = "";
  enter().catch((error) => { at("refused").textContent = error.message; });
});
at("leave").addEventListener("click", () => { sessionStorage.removeItem(KEY); location.reload(); });

// ---- one target, and its sliders

let now = null; // the target's Mixture, and what the server knows of it
const queue = { busy: false, again: false };

async function choose(name) {
  const about = await json(url(name));
  const names = sources.map((one) => one.name).filter((one) => one !== name);
  if (about.own_sample) names.push(OWN);
  now = { about, mixture: new Mixture(names, about.alpha), first: null };
  const rows = about.rows.learn
    ? `${about.rows.learn} rows to learn from, ${about.rows.test} for scores.`
    : "It has no labels: its weights come from its inputs alone, and there is no score.";
  const lost = about.alpha[OWN] && !about.own_sample;
  at("about").textContent = lost
    ? `${rows} The run does not keep the rows of targets that were added, so that its own sample, ${number(about.alpha[OWN])} of its weight, has no slider and there is no score.`
    : `${rows} Models here do not learn from the rows for scores.`;
  at("metric").textContent = `${about.metric[0].toUpperCase()}${about.metric.slice(1)} on its rows`;
  draw();
  solve();
}

function draw() {
  const { mixture } = now;
  at("sliders").replaceChildren(...mixture.shown.map((name, i) => slider(name, i)));
  const others = mixture.names.filter((name) => !mixture.shown.includes(name));
  at("more").hidden = !others.length;
  at("more").replaceChildren(new Option("Add a source …", ""), ...others.map((name) => new Option(name, name)));
  values();
}

function slider(name, i) {
  const row = document.createElement("div"), label = document.createElement("label");
  const input = Object.assign(document.createElement("input"), { type: "range", min: 0, max: 1, step: 0.005, id: `slider${i}` });
  const output = document.createElement("output");
  row.className = name === OWN ? "slider own" : "slider";
  label.htmlFor = output.htmlFor = input.id;
  label.textContent = name === OWN ? "its own rows" : name;
  input.dataset.name = name;
  input.addEventListener("input", () => {
    simplex(now.mixture.alpha, name, Number(input.value));
    values(input);
    solve();
  });
  row.append(label, input, output);
  return row;
}

function values(moved = null) {
  for (const input of at("sliders").querySelectorAll("input")) {
    const weight = now.mixture.alpha[input.dataset.name];
    if (input !== moved) input.value = weight;
    input.setAttribute("aria-valuetext", weight.toFixed(3));
    input.nextSibling.textContent = weight.toFixed(3);
  }
}

// One question at a time; while it is answered, only the newest is remembered.
async function solve() {
  if (queue.busy) { queue.again = true; return; }
  queue.busy = true;
  try {
    do {
      queue.again = false;
      await solved(now);
    } while (queue.again);
  } finally { queue.busy = false; }
}

async function solved(asked) {
  const { about, mixture } = asked, began = performance.now();
  const alpha = Object.fromEntries(Object.entries(mixture.alpha).filter(([, weight]) => weight > 0));
  const wanted = at("trust").value || null, solves = OWN in alpha && wanted === "certified";
  const question = { alpha, target: about.name, trust: solves ? null : wanted, sensitivity: false };
  let found;
  try {
    found = await post("v1/mixtures", question);
  } catch (error) {
    at("unmixed").textContent = error.message;
    return;
  }
  if (asked !== now) return;
  at("unmixed").textContent = "";
  asked.first ||= found.model;
  const { certificate, score } = found;
  at("level").textContent = found.trust;
  at("level").classList.toggle("bad", !["certified", "corrected", "solved", "solved to rounding", "trained"].includes(found.trust));
  at("sentence").textContent = solves ? `No map knows its own rows, so that the model is not ${wanted}. ${found.sentence}` : found.sentence;
  at("distance").textContent = certificate.distance === null ? "not known" : number(certificate.distance);
  at("proven").textContent = certificate.proven ? "proven" : "calibrated on other mixtures, not proven";
  const written = (value) => (score.metric === "accuracy" ? value.toFixed(3) : number(value));
  at("score").textContent = score ? written(score.value) : "–";
  at("scored").textContent = score ? `${written(score.low)} to ${written(score.high)} (95 %), ${score.rows} rows; ${score.higher_is_better ? "higher" : "lower"} is better` : "no rows for scores are at hand";
  at("took").textContent = `${Math.round(performance.now() - began)} ms from the slider to the model`;
  at("coefficients").replaceChildren(coefficients(found.model, asked.first));
}

function back(alpha) {
  now.mixture.set(alpha);
  draw();
  solve();
}

const failed = (error) => { at("unmixed").textContent = error.message; };
at("target").addEventListener("change", () => choose(at("target").value).catch(failed));
at("trust").addEventListener("change", solve);
at("reset").addEventListener("click", () => back(now.about.alpha));
at("equal").addEventListener("click", () => back(Object.fromEntries(now.mixture.names.filter((n) => n !== OWN).map((n) => [n, 1]))));
at("more").addEventListener("change", () => { now.mixture.shown.push(at("more").value); draw(); at("sliders").lastChild.querySelector("input").focus(); });

// ---- a new target

let file = null;

function take(chosen) {
  file = chosen;
  at("chosen").textContent = chosen ? `${chosen.name}, ${number(chosen.size / 1024)} KiB` : "or choose one";
  if (chosen && !at("name").value) at("name").value = chosen.name.replace(/\.csv$/i, "");
}

for (const kind of ["dragenter", "dragover"]) at("drop").addEventListener(kind, (event) => { event.preventDefault(); at("drop").classList.add("over"); });
for (const kind of ["dragleave", "drop"]) at("drop").addEventListener(kind, () => at("drop").classList.remove("over"));
at("drop").addEventListener("drop", (event) => { event.preventDefault(); take(event.dataTransfer.files[0] || null); });
at("file").addEventListener("change", () => take(at("file").files[0] || null));

at("adding").addEventListener("submit", async (event) => {
  event.preventDefault();
  at("unadded").textContent = "";
  at("added").hidden = true;
  if (!file) { at("unadded").textContent = "Choose a CSV file first."; return; }
  const name = at("name").value;
  at("add").disabled = true;
  step("sending the rows", null);
  try {
    const answered = await ask(`v1/targets?name=${encodeURIComponent(name)}`, { method: "POST", body: file, headers: { "Content-Type": "text/csv" } });
    if (answered.status === 202) await followed(await answered.json());
    const about = await json(url(name));
    await overview();
    shown(about);
    at("adding").reset();
    take(null);
  } catch (error) {
    at("unadded").textContent = error.message;
  } finally {
    at("add").disabled = false;
    step("", undefined);
  }
});

function step(what, share) {
  at("step").textContent = what;
  at("progress").hidden = share === undefined;
  if (share === null) at("progress").removeAttribute("value");
  else if (share !== undefined) at("progress").value = share;
}

// EventSource sends no token, so that the stream of events is read here.
async function followed(job) {
  const reader = (await ask(job.events)).body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = "", last = job; ; ) {
    const { value, done } = await reader.read();
    text += value || "";
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      last = JSON.parse(text.slice(text.indexOf("data: ") + 6, end));
      const { what, done: some, total } = last.progress;
      step(what || "waiting", total ? some / total : null);
    }
    if (done && last.state === "failed") throw new Refused(422, last.detail);
    if (done) return;
  }
}

function shown(about) {
  at("whose").textContent = `${about.name}.`;
  at("found").textContent = `Its weights were found: ${about.rows.learn} rows to learn from, ${about.rows.test} for scores.`;
  const weights = Object.entries(about.alpha).sort((a, b) => b[1] - a[1]);
  at("addedalpha").replaceChildren(bars(weights.map(([name, value]) => ({ name: name === OWN ? "its own rows" : name, value, own: name === OWN })), 1, true));
  at("added").hidden = false;
  at("open").onclick = () => {
    at("target").value = about.name;
    choose(about.name).then(() => at("whatif").scrollIntoView()).catch(failed);
  };
}

if (token) enter().catch((error) => { at("refused").textContent = error.message; });
