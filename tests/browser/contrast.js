// Every text that can be seen, its colour and what is painted below it: returns those below a contrast of 4.5.
const least = arguments[0];
const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
const over = (top, below) => [0, 1, 2].map(k => top[k] * top[3] + below[k] * (1 - top[3])).concat([1]);
const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const shapes = new Set(["rect", "circle", "polygon", "path"]);

function paint(element) {
  const style = getComputedStyle(element);
  if (element instanceof SVGElement && element.tagName !== "svg") {
    if (!shapes.has(element.tagName) || style.fill === "none") return [0, 0, 0, 0];
    const c = parse(style.fill);
    return [c[0], c[1], c[2], c[3] * Number(style.fillOpacity)];
  }
  return parse(style.backgroundColor);
}

function below(element, x, y) {
  const stack = document.elementsFromPoint(x, y);
  const at = stack.indexOf(element);
  if (at < 0) return null;  // scrolled out of its own container, or covered
  let colour = [255, 255, 255, 1];
  for (const layer of stack.slice(at).reverse()) if (layer !== element || !(element instanceof SVGElement)) colour = over(paint(layer), colour);
  return colour;
}

const bad = [];
let seen = 0;
for (const element of document.querySelectorAll("body *")) {
  if (["title", "style", "desc"].includes(element.tagName)) continue;
  const own = [...element.childNodes].filter(n => n.nodeType === 3 && n.textContent.trim());
  if (!own.length) continue;
  element.scrollIntoView({ block: "center", inline: "center" });
  const range = document.createRange();
  range.selectNodeContents(own[0]);
  const box = element instanceof SVGElement ? element.getBoundingClientRect() : range.getClientRects()[0];
  if (!box || !box.width) continue;
  const background = below(element, box.x + box.width / 2, box.y + box.height / 2);
  if (!background) continue;
  const style = getComputedStyle(element);
  const ink = over(parse(element instanceof SVGElement ? style.fill : style.color), background);
  seen += 1;
  const found = ratio(ink, background);
  if (found < least) bad.push([own[0].textContent.trim().slice(0, 40), element.getAttribute("class"), Number(found.toFixed(2)), background]);
}
return { seen, bad };
