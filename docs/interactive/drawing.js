// What the page "Drag a linkage" draws with: the picture of a linkage, and diagrams over the crank angle.
export const WIDTH = 10, HEIGHT = 7.2;
const SCALE = 60;
// Where the names of pins stand, clear of the links.
const NAMES = {O: [-12, -8], A: [-12, -10], B: [12, -24], C: [12, -8], P: [10, -12]};

export function element(tag, attributes = {}, namespace = "http://www.w3.org/1999/xhtml") {
  const node = document.createElementNS(namespace, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}
const shape = (parent, tag, attributes) => parent.appendChild(element(tag, attributes, "http://www.w3.org/2000/svg"));
const path = (points, closed = false) => points.length ? "M" + points.map((p) => p.map((x) => x.toFixed(1)).join(" ")).join("L") + (closed ? "Z" : "") : "";

export class Picture {
  // dragged(name, point) is called while a pin is held.
  constructor(root, slides, dragged) {
    this.slides = slides;
    const svg = this.svg = shape(root, "svg", {viewBox: `0 0 ${WIDTH * SCALE} ${HEIGHT * SCALE}`, class: "picture", role: "group", "aria-label": slides ? "slider-crank" : "four-bar"});
    const add = (tag, name) => shape(svg, tag, {class: name});
    this.base = add("path", "ground");
    this.reach = [add("circle", "reach"), slides ? add("path", "reach") : add("circle", "reach")];
    this.curve = add("path", "curve");
    this.plate = add("path", "plate");
    this.links = {rocker: slides ? add("rect", "block") : add("path", "link rocker"), coupler: add("path", "link coupler"), crank: add("path", "link crank")};
    this.pins = Object.fromEntries((slides ? "OABP" : "OCABP").split("").map((name) => [name, this.pin(name, dragged)]));
  }

  pin(name, dragged) {
    const pin = shape(this.svg, "g", {class: "pin", tabindex: 0, role: "button", "aria-label": `pin ${name}`});
    const [x, y] = NAMES[name];
    shape(pin, "circle", {class: "grip"});
    shape(pin, "circle", {class: "dot"});
    shape(pin, "text", {x, y, "text-anchor": x < 0 ? "end" : "start"}).textContent = name;
    pin.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      pin.setPointerCapture(event.pointerId);
      pin.classList.add("held");
      const at = this.at(event), off = [at[0] - this.now[name][0], at[1] - this.now[name][1]];
      let next = null;
      pin.onpointermove = (moved) => {
        // Many events may come in a frame: the last one counts.
        if (next === null) requestAnimationFrame(() => { dragged(name, next); next = null; });
        const [x, y] = this.at(moved);
        next = [x - off[0], y - off[1]];
      };
    });
    const release = () => { pin.onpointermove = null; pin.classList.remove("held"); };
    for (const kind of ["pointerup", "pointercancel"]) pin.addEventListener(kind, release);
    pin.addEventListener("keydown", (event) => {
      const move = {ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1]}[event.key];
      if (!move) return;
      event.preventDefault();
      dragged(name, [this.now[name][0] + move[0], this.now[name][1] + move[1]]);
    });
    return pin;
  }

  at(event) {
    const box = this.svg.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width * WIDTH, (1 - (event.clientY - box.top) / box.height) * HEIGHT];
  }

  // `fits`: whether the linkage could be assembled; if not, the reach of both links that should meet is drawn.
  show(pins, curve, fits, lengths) {
    this.now = pins;
    const spot = ([x, y]) => [x * SCALE, (HEIGHT - y) * SCALE], set = (node, attributes) => Object.entries(attributes).forEach(([k, v]) => node.setAttribute(k, v));
    const {O, A, B, C, P} = Object.fromEntries(Object.entries(pins).map(([name, p]) => [name, spot(p)]));
    const hatch = ([x, y]) => `M${x} ${y}l-13 20h26Z` + [-13, -4, 5, 14].map((d) => `M${x + d} ${y + 20}l-7 8`).join("");
    const slide = C[1] + 16;
    this.base.setAttribute("d", hatch(O) + (this.slides ? `M12 ${slide}H${WIDTH * SCALE - 12}` : hatch(C)));
    this.curve.setAttribute("d", path(curve.map(spot)));
    for (const node of [this.plate, this.links.coupler, this.links.rocker]) node.style.display = fits ? "" : "none";
    for (const node of this.reach) node.style.display = fits ? "none" : "";
    set(this.links.crank, {d: path([O, A])});
    set(this.links.coupler, {d: path([A, B])});
    set(this.plate, {d: path([A, B, P], true)});
    if (this.slides) set(this.links.rocker, {x: B[0] - 28, y: B[1] - 16, width: 56, height: 32, rx: 4});
    else set(this.links.rocker, {d: path([C, B])});
    set(this.reach[0], {cx: A[0], cy: A[1], r: lengths[1] * SCALE});
    set(this.reach[1], this.slides ? {d: `M12 ${C[1]}H${WIDTH * SCALE - 12}`} : {cx: C[0], cy: C[1], r: lengths[2] * SCALE});
    for (const [name, node] of Object.entries(this.pins)) {
      const [x, y] = {O, A, B, C, P}[name];
      node.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      node.style.display = fits || name === "O" || name === "A" || name === "C" ? "" : "none";
    }
  }
}

const FRAME = {left: 40, right: 425, top: 24, bottom: 150};

export class Diagram {
  constructor(root, title, name, range = null, limit = null) {
    Object.assign(this, {range, limit});
    const svg = this.svg = shape(root, "svg", {viewBox: "0 0 440 176", role: "img", "aria-label": title});
    const {left, right, top, bottom} = FRAME;
    shape(svg, "text", {x: left, y: 14}).textContent = title;
    this.value = shape(svg, "text", {x: right, y: 14, "text-anchor": "end"});
    for (let angle = 0; angle <= 360; angle += 90) {
      const x = this.x(angle);
      shape(svg, "path", {class: "axis", d: `M${x} ${top}V${bottom}`});
      shape(svg, "text", {x, y: bottom + 18, "text-anchor": "middle"}).textContent = `${angle}°`;
    }
    this.rows = shape(svg, "g", {});
    this.line = shape(svg, "path", {class: `line ${name}`});
    this.cursor = shape(svg, "path", {class: "now"});
    this.mark = shape(svg, "circle", {class: "mark", r: 3.5});
  }

  x(angle) { return FRAME.left + angle / 360 * (FRAME.right - FRAME.left); }

  y(value) {
    const [low, high] = this.shown;
    return FRAME.bottom - (value - low) / (high - low) * (FRAME.bottom - FRAME.top);
  }

  // `points`: pairs of an angle between 0 and 360 and a value, in the order in which the crank turns.
  show(points, now) {
    this.scale(points.map((p) => p[1]));
    const clipped = (value) => Math.min(Math.max(value, this.shown[0]), this.shown[1]), inside = (value) => clipped(value) === value;
    // A turn that goes past 360° goes on at 0°.
    const pieces = [[]];
    points.forEach(([angle, value], k) => {
      if (k && Math.abs(angle - points[k - 1][0]) > 180) pieces.push([]);
      // The last piece of a line that leaves the diagram ends at its edge.
      if (inside(value) || inside(points[k - 1]?.[1]) || inside(points[k + 1]?.[1])) pieces.at(-1).push([this.x(angle), this.y(clipped(value))]);
    });
    if (pieces.length > 1 && pieces[0].length && pieces[1].length) {
      const [before, after] = [pieces[0].at(-1), pieces[1][0]], up = before[0] > after[0];
      pieces[0].push([this.x(up ? 360 : 0), after[1]]);
      pieces[1].unshift([this.x(up ? 0 : 360), before[1]]);
    }
    this.line.setAttribute("d", pieces.map((p) => path(p)).join(""));
    for (const node of [this.cursor, this.mark]) node.style.display = now ? "" : "none";
    this.value.textContent = now ? `now ${now[1].toFixed(this.range ? 0 : 2)}${this.range ? "°" : ""}` : "";
    if (!now) return;
    const x = this.x(now[0]);
    this.cursor.setAttribute("d", `M${x} ${FRAME.top}V${FRAME.bottom}`);
    this.mark.setAttribute("cx", x);
    this.mark.setAttribute("cy", this.y(clipped(now[1])));
  }

  // Round numbers around all values; where a linkage locks up the speed has no bound, and the ends are cut off.
  scale(values) {
    const size = Math.max(...values.map((x) => Math.min(Math.abs(x), 5)), 0.1);
    const step = [0.05, 0.1, 0.25, 0.5, 1, 2, 5].find((x) => size / x <= 2.2) ?? 5;
    const most = step * Math.ceil(size / step - 1e-9);
    const shown = this.range ?? [-most, most];
    if (String(shown) === String(this.shown)) return;
    this.shown = shown;
    const ticks = this.range ? [0, 30, 60, 90] : [-most, -most / 2, 0, most / 2, most];
    this.rows.replaceChildren();
    for (const tick of ticks) {
      const y = this.y(tick);
      shape(this.rows, "path", {class: tick ? "axis" : "axis zero", d: `M${FRAME.left} ${y}H${FRAME.right}`});
      shape(this.rows, "text", {x: FRAME.left - 6, y: y + 4, "text-anchor": "end"}).textContent = String(Number(tick.toFixed(3)));
    }
    if (this.limit !== null) shape(this.rows, "path", {class: "limit", d: `M${FRAME.left} ${this.y(this.limit)}H${FRAME.right}`});
  }
}
