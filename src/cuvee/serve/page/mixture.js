// A mixture on the simplex, and bars of numbers.

const MOST = 24; // sliders at first
const LARGEST = 12; // coefficients that are drawn

export class Mixture {
  constructor(names, alpha) {
    this.names = names;
    this.set(alpha);
  }

  // Set weights by name; what has no slider here is left out, and the others share its part.
  set(alpha) {
    const kept = this.names.map((name) => Math.max(alpha[name] || 0, 0));
    const sum = kept.reduce((a, b) => a + b, 0);
    this.alpha = Object.fromEntries(this.names.map((name, i) => [name, sum > 0 ? kept[i] / sum : 1 / this.names.length]));
    const heaviest = [...this.names].sort((a, b) => this.alpha[b] - this.alpha[a]).slice(0, MOST);
    this.shown = this.names.filter((name) => heaviest.includes(name));
  }
}

// Move one weight, and let the others share the rest as they did before; alike where they had none.
export function simplex(alpha, name, value) {
  const others = Object.keys(alpha).filter((one) => one !== name);
  const sum = others.reduce((total, one) => total + alpha[one], 0);
  const weight = others.length ? Math.min(Math.max(value, 0), 1) : 1;
  for (const one of others) alpha[one] = sum > 0 ? (alpha[one] / sum) * (1 - weight) : (1 - weight) / others.length;
  alpha[name] = weight;
}

// As the report writes numbers: three digits, and a real minus sign.
export function number(x) {
  if (x === null || Number.isNaN(x)) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) {
    const [digits, power] = x.toExponential(2).split("e");
    const raised = String(Number(power)).replace(/./g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
    return `${digits}×10${raised}`.replace("-", "−");
  }
  const text = size >= 1000 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(3)));
  return text.replace("-", "−");
}

// Bars from the middle, or from the left; `before` is a tick.
export function bars(items, largest, fromLeft = false) {
  const all = document.createElement("div");
  all.className = "bars";
  const share = (value) => (fromLeft ? (100 * value) / largest : 50 + (50 * value) / largest);
  for (const { name, value, before, own } of items) {
    const label = document.createElement("span"), track = document.createElement("span"), written = document.createElement("span");
    label.textContent = name;
    track.className = fromLeft ? "track from-left" : "track";
    const bar = document.createElement("i"), start = fromLeft ? 0 : 50;
    bar.style.left = `${Math.min(start, share(value))}%`;
    bar.style.width = `${Math.abs(share(value) - start)}%`;
    if (own) bar.className = "own";
    track.append(bar);
    if (before !== undefined) {
      const tick = document.createElement("u");
      tick.style.left = `${share(before)}%`;
      track.append(tick);
    }
    written.className = "number";
    written.textContent = fromLeft ? value.toFixed(3) : number(value);
    all.append(label, track, written);
  }
  return all;
}

// The largest coefficients of a linear model, beside those of another one.
export function coefficients(model, first) {
  const width = model.columns.length + 1, outputs = model.parameters.length / width;
  if (!Number.isInteger(outputs)) {
    const none = document.createElement("p");
    none.className = "note";
    none.textContent = `A network of ${model.parameters.length.toLocaleString("en")} parameters; none of them belongs to one column.`;
    return none;
  }
  const of = (i) => (outputs > 1 ? ` · ${model.classes[Math.floor(i / width)]}` : "");
  const named = model.parameters.map((value, i) => ({ name: (model.columns[i % width] ?? "(intercept)") + of(i), value, before: first.parameters[i] }));
  const size = (one) => Math.max(Math.abs(one.before), Math.abs(one.value));
  const drawn = named.sort((a, b) => Math.abs(b.before) - Math.abs(a.before)).slice(0, LARGEST);
  return bars(drawn, Math.max(...drawn.map(size)) || 1);
}
