// The page of a mechanism. Before this stand the program, the function `motion`, and html_drawing.js. Lengths are in units of
// the mechanism; what `px` returns is in pixels.
const data = JSON.parse(document.getElementById("data").textContent);
const CONVERGED = 0, LOCKED_UP = 3;
const WORDS = {
  1: "The mechanism cannot be assembled like this.", 2: "The computation did not converge here.", 3: "The mechanism locks up here.",
  4: "In this position several motions are possible.", 5: "A number is not finite.",
};
// Samples that are played in a second, of those that the program computes.
const SAMPLES_PER_SECOND = 30;
// Widest distance in pixels at which a body is taken hold of.
const REACH_PX = 34;
// The size of the picture is found from one in so many samples.
const FIT_STEP = 6;
// Transmission angles in degrees below this one are poor.
const MIN_TRANSMISSION = 40;
// Positions count as equal if they differ by less, relative to the largest number in them.
const SAME = 1e-6;
const TURN = 2 * Math.PI;
const dimension = data.view[0].length;
const range = (n) => [...Array(n).keys()];
const mod = (x, n) => ((x % n) + n) % n;
const dot = (a, b) => a.reduce((sum, x, k) => sum + x * b[k], 0);
const add = (a, b, factor = 1) => a.map((x, k) => x + factor * b[k]);
const minus = (a, b) => add(a, b, -1);
const size = (a) => Math.hypot(...a);
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const flat = (p) => data.view.map((row) => dot(row, p));
const degrees = (x) => x * 180 / Math.PI;
const number = (x) => String(Number(x.toPrecision(4)));
const path = (points, closed = false) => points.length ? "M" + points.map((p) => p.map((x) => x.toFixed(1)).join(" ")).join("L") + (closed ? "Z" : "") : "";

function element(parent, tag, attributes = {}, text = null) {
  const svg = parent.namespaceURI.endsWith("svg") || tag === "svg";
  const node = parent.appendChild(document.createElementNS(svg ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", tag));
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  return node;
}

// --- computation ---

// The motion from a configuration while the drivers move at constant rates for one unit of time.
class Motion {
  constructor(values, q, drive, rates) {
    this.input = {values, q, drive, rates};
    [this.frames, this.rates, this.q, this.status, this.points, this.axes, this.sizes] = motion(...[values, q, drive, rates].map((x) => Float64Array.from(x)));
    const bad = this.status.findIndex((x) => x !== CONVERGED);
    this.good = bad < 0 ? this.status.length : bad;
    this.end = bad < 0 ? CONVERGED : this.status[bad];
  }

  sample(k, driver) {
    const n = this.q.length / this.status.length, part = k / (this.status.length - 1);
    return {motion: this, k, value: this.input.drive[driver] + part * this.input.rates[driver], q: this.q.slice(k * n, (k + 1) * n), speed: Math.abs(this.input.rates[driver])};
  }
}

const columns = (array, row, width) => [...array.slice(row * width, (row + 1) * width)];

// Matrix times vector for a body of a sample, of `table`: frames or rates; `one` is 1 for points and 0 for directions.
function placed({motion, k}, table, body, s, one) {
  if (body < 0) return table === "rates" ? s.map(() => 0) : s;
  const array = motion[table], start = (k * data.bodies.length + body) * dimension * (dimension + 1);
  return range(dimension).map((r) => {
    const row = start + r * (dimension + 1);
    return s.reduce((sum, x, c) => sum + array[row + c] * x, one * array[row + dimension]);
  });
}
const local = (sample, k) => columns(sample.motion.points, k, dimension);
const point = (sample, k) => placed(sample, "frames", data.anchors[k], local(sample, k), 1);
const axis = (sample, k) => placed(sample, "frames", data.anchors[k], columns(sample.motion.axes, k, dimension), 0);
// Components in the frame of a body of a vector in the picture.
const inside = (sample, body, [x, y]) => {
  const d = add(data.view[0].map((c) => c * x), data.view[1], y);
  return range(dimension).map((c) => dot(placed(sample, "frames", body, range(dimension).map((r) => Number(r === c)), 0), d));
};

// The smallest acute angle in degrees between pushing links and what they move.
function transmission(sample) {
  return Math.min(...data.transmissions.map(({link, on, slides}) => {
    const [a, b] = link.map((k) => point(sample, k)), along = minus(b, a), pivot = point(sample, on), e = axis(sample, on);
    const lever = slides ? [-e[1], e[0]] : minus(b, pivot);
    return degrees(Math.atan2(Math.abs(along[0] * lever[1] - along[1] * lever[0]), Math.abs(dot(along, lever))));
  }));
}

// --- the page ---

class Page {
  constructor(root) {
    this.root = root;
    if (data.title) root.querySelector("h1").textContent = document.title = data.title;
    this.picture = new Picture(root.querySelector(".picture"));
    this.picture.svg.setAttribute("aria-label", data.title || "mechanism");
    const diagrams = root.querySelector(".diagrams");
    this.speed = new Diagram(diagrams, data.drivers.length > 1 ? "speed of the point / rate of the driver" : `speed of the point / rate of ${data.drivers[0].name}`, {});
    if (data.transmissions.length) this.angle = new Diagram(diagrams, "transmission angle, degrees", {ends: [0, 90], limit: MIN_TRANSMISSION, unit: "°"});
    this.message = root.querySelector(".message");
    this.controls(root.querySelector(".controls"));
    this.picture.svg.addEventListener("pointerdown", (event) => this.hold(event));
    this.reset();
    new ResizeObserver(() => {
      this.show();
      // A frame in a page of the same site is as high as its content.
      if (window.frameElement) window.frameElement.style.height = `${root.offsetHeight + 4}px`;
    }).observe(root);
  }

  // -- what one sets --

  controls(box) {
    const slider = (kind, {name, low, high}, changed) => {
      const label = element(box, "label", {class: kind});
      element(label, "span", {}, name);
      const input = element(label, "input", {type: "range", min: low, max: high, step: "any", "aria-label": name}), output = element(label, "output");
      let waiting = false;
      input.addEventListener("input", () => {
        // Many events may come in a frame: the last one counts.
        if (!waiting) requestAnimationFrame(() => { waiting = false; this.play(false); changed(Number(input.value)); });
        waiting = true;
      });
      return (value, text) => { input.value = value; output.textContent = text; };
    };
    this.driverSliders = data.drivers.map((driver, k) => slider("driver", driver.turns ? {name: driver.name, low: 0, high: 360} : driver, (value) => this.drive(k, driver.turns ? value * Math.PI / 180 : value)));
    this.valueSliders = data.sliders.map((each, k) => slider("length", each, (value) => this.set(k, value)));
    const label = element(box, "label", {class: "choice"});
    element(label, "span", {}, "curve of a point on");
    const select = this.select = element(label, "select", {"aria-label": "body of the point"});
    data.bodies.forEach(({name}, k) => element(select, "option", {value: k}, name));
    select.addEventListener("change", () => this.mark(Number(select.value)));
    const buttons = element(box, "div", {class: "buttons"});
    this.button = element(buttons, "button", {type: "button"}, "Play");
    this.button.addEventListener("click", () => this.play(!this.playing));
    element(buttons, "button", {type: "button"}, "Reset").addEventListener("click", () => this.reset());
  }

  reset() {
    this.play(false);
    this.values = data.sliders.map((x) => x.value);
    this.positions = data.drivers.map((x) => x.value);
    this.active = 0;
    this.on = {...data.point};
    this.q = data.q;
    this.picture.box = null;
    this.solve();
  }

  set(k, value) {
    this.values[k] = value;
    this.solve();
  }

  // Move a driver to a value; of an angle, to the nearest one that is equal up to turns.
  drive(k, value) {
    this.active = k;
    const now = this.positions[k];
    this.positions[k] = data.drivers[k].turns ? now + mod(value - now + Math.PI, TURN) - Math.PI : value;
    // The search begins in the nearest position that is known.
    const known = this.samples.filter((x) => x.driver === k);
    const off = known.map((x) => Math.abs(x.value - this.positions[k]));
    if (known.length) this.q = known[off.indexOf(Math.min(...off))].q;
    this.solve();
  }

  // Choose the point of a body that draws the curve: the middle of its anchors.
  mark(body) {
    const held = data.plates[body].anchors.map((k) => local(this.now, k));
    this.on = {body, s: range(dimension).map((c) => held.reduce((sum, p) => sum + p[c], 0) / held.length)};
    this.solve();
  }

  hold(event) {
    if (event.button || this.picture.svg.classList.contains("held")) return;
    if (this.failed) this.restore();
    const sample = this.now, start = this.picture.at(event), spot = this.picture.px(flat(this.place(sample)));
    const marked = size(minus(start, spot)) < 22, grip = marked ? null : this.picture.hit(sample, start);
    if (!marked && !grip) return;
    event.preventDefault();
    this.play(false);
    const svg = this.picture.svg, from = marked ? spot : this.picture.px(flat(placed(sample, "frames", grip.body, grip.s, 1)));
    const off = minus(start, from);
    svg.setPointerCapture(event.pointerId);
    svg.classList.add("held");
    if (grip) {
      // A body that has a driver of its own is moved by it.
      const own = data.drivers.findIndex((x) => x.bodies.includes(data.bodies[grip.body].name));
      if (own >= 0 && own !== this.active) { this.active = own; this.solve(); }
    }
    let next = null;
    svg.onpointermove = (moved) => {
      if (next === null) requestAnimationFrame(() => { const to = next; next = null; marked ? this.moveMark(to) : this.pull(grip, to); });
      next = minus(this.picture.at(moved), off);
    };
    const release = () => {
      svg.onpointermove = svg.onpointerup = svg.onpointercancel = null;
      svg.classList.remove("held");
      if (marked) this.solve();
    };
    svg.onpointerup = svg.onpointercancel = release;
  }

  moveMark(to) {
    const from = this.picture.px(flat(this.place(this.now))), scale = this.picture.perUnit;
    const step = inside(this.now, this.on.body, [(to[0] - from[0]) / scale, (from[1] - to[1]) / scale]);
    this.on.s = add(this.on.s, step);
    this.show();
  }

  // Move the active driver so that a point of a body comes near to a place in pixels.
  pull({body, s}, to) {
    const count = this.samples.length, near = (k) => this.picture.px(flat(placed(this.samples[k], "frames", body, s, 1)));
    const index = (k) => this.whole ? mod(k, count - 1) : clamp(k, 0, count - 1);
    const from = index(this.at), reach = count >> 2, options = range(2 * reach + 1).map((k) => from + k - reach).filter((k) => this.whole || k >= 0 && k < count);
    const off = options.map((k) => size(minus(near(index(k)), to)) + 1e-6 * Math.abs(k - from)), best = options[off.indexOf(Math.min(...off))];
    // Between two samples, the nearest place on the line between them.
    const [value, step] = [this.samples[index(best)].value, (this.samples[1]?.value ?? 0) - this.samples[0].value];
    const parts = [-1, 1].map((side) => { const other = index(best + side); return [side, ...distance(to, near(index(best)), near(other))]; });
    const [side, , part] = parts[0][1] < parts[1][1] ? parts[0] : parts[1];
    const whole = index(best) !== best && this.whole ? Math.sign(best - index(best)) * TURN * Math.sign(step) : 0;
    this.positions[this.active] = value + whole + side * part * step;
    if (!this.whole) this.positions[this.active] = clamp(this.positions[this.active], ...[this.samples[0].value, this.samples.at(-1).value].sort((a, b) => a - b));
    this.q = this.samples[index(best)].q;
    this.solve();
  }

  // -- computation --

  // The motion of the active driver over its range, from the present position in both directions.
  solve() {
    const k = this.active, driver = data.drivers[k], value = this.positions[k];
    const half = (span) => {
      // At the end of the range a small step gives the speed.
      const rate = span || 1e-6 * (driver.high - driver.low);
      const motion = new Motion([...this.values], this.q, [...this.positions], this.positions.map((_, other) => other === k ? rate : 0));
      if (!span) motion.good = Math.min(motion.good, 1);
      return motion;
    };
    const forwards = half(driver.turns ? TURN : driver.high - value);
    this.failed = forwards.good ? CONVERGED : forwards.end;
    if (this.failed && this.samples) return this.show();
    // The first position may be singular: it is shown all the same.
    if (this.failed) forwards.good = 1;
    this.whole = driver.turns && forwards.end === CONVERGED && this.closes(forwards);
    const backwards = this.whole ? null : half(driver.turns ? -TURN : driver.low - value);
    const samples = (motion) => motion ? range(motion.good).map((n) => ({...motion.sample(n, k), driver: k})) : [];
    const before = samples(backwards).slice(1).reverse();
    this.samples = [...before, ...samples(forwards)];
    this.at = before.length;
    this.ends = [backwards?.end, forwards.end];
    this.result = forwards;
    this.settle();
    this.found = [...this.positions];
    this.picture.fit(this.samples, this.samples.map((x) => flat(this.place(x))));
    this.show();
  }

  // True if the last sample looks like the first one, as after a turn of a crank; gears may need several turns. In space a
  // rod between two balls may have turned about itself, which nobody sees.
  closes(motion) {
    const seen = (k) => [...range(data.anchors.length).map((n) => point({motion, k}, n)), this.place({motion, k})].flat();
    const turned = (k) => dimension === 2 ? columns(motion.frames, k, motion.frames.length / motion.status.length) : [];
    const [first, last] = [0, motion.status.length - 1].map((k) => [...seen(k), ...turned(k)]);
    const largest = Math.max(...first.map(Math.abs), 1e-300);
    return first.every((x, k) => Math.abs(last[k] - x) < SAME * largest);
  }

  get now() { return this.samples[this.at]; }

  // A point of a body, by name, in the plane of the picture.
  project(name, s) { return flat(placed(this.now, "frames", data.bodies.findIndex((x) => x.name === name), s, 1)); }

  // Speed of the point, divided by the rate of the active driver.
  speedAt(sample) { return size(placed(sample, "rates", this.on.body, this.on.s, 1)) / (sample.speed || 1); }

  transmission(sample) { return transmission(sample); }

  place(sample) { return placed(sample, "frames", this.on.body, this.on.s, 1); }

  // Continue from the position that is shown.
  settle() {
    this.q = this.now.q;
    this.positions[this.active] = this.now.value;
  }

  // Go back to the values of the drivers at the position that is shown.
  restore() {
    this.positions = [...this.found];
    this.active = this.now.driver;
    this.settle();
  }

  play(on) {
    if (this.playing && !on) this.settle();
    if (on && this.failed) { this.restore(); this.solve(); on = !this.failed; }
    this.playing = on;
    this.button.textContent = on ? "Pause" : "Play";
    if (!on) return;
    let last = null, place = this.at, step = 1;
    const tick = (time) => {
      if (!this.playing) return;
      const end = this.samples.length - 1;
      place += step * (last === null ? 0 : Math.min(time - last, 100) / 1000 * SAMPLES_PER_SECOND);
      last = time;
      if (this.whole) place = mod(place, end);
      else if (place <= 0 || place >= end) { step = place <= 0 ? 1 : -1; place = clamp(place, 0, end); }
      this.at = Math.round(place);
      this.show();
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  // -- display --

  show() {
    const {now, samples} = this, driver = data.drivers[this.active];
    this.picture.svg.classList.toggle("failed", this.failed !== CONVERGED);
    this.picture.show(now, samples.map((x) => flat(this.place(x))), flat(this.place(now)));
    const shown = (diagram, quantity) => diagram?.show(samples.map((x) => [x.value, quantity(x)]), this.failed ? null : [now.value, quantity(now)], [driver.low, driver.high], driver.turns);
    shown(this.speed, (x) => this.speedAt(x));
    shown(this.angle, transmission);
    const wanted = (k) => this.playing && k === this.active ? now.value : this.positions[k];
    data.drivers.forEach(({turns}, k) => this.driverSliders[k](turns ? mod(degrees(wanted(k)), 360) : wanted(k), turns ? `${mod(Math.round(10 * degrees(wanted(k))), 3600) / 10}°` : number(wanted(k))));
    data.sliders.forEach((_, k) => this.valueSliders[k](this.values[k], number(this.values[k])));
    this.select.value = this.on.body;
    this.button.disabled = samples.length < 2;
    this.message.classList.toggle("bad", this.failed !== CONVERGED);
    this.message.textContent = this.failed ? `${WORDS[this.failed]} The last position that could be computed is shown in grey.` : this.range(driver);
  }

  range(driver) {
    const [low, high] = [this.samples[0], this.samples.at(-1)].map((x) => driver.turns ? `${Math.round(degrees(x.value))}°` : number(x.value));
    const why = this.ends.map((x) => x === CONVERGED ? "its range ends" : x === LOCKED_UP ? "the mechanism locks up" : "the motion ends");
    const ends = why[0] === why[1] ? (why[0] === "its range ends" ? "These are the ends of its range." : `At both ends ${why[0]}.`) : `At ${low} ${why[0]}, at ${high} ${why[1]}.`;
    const turn = this.whole ? `${driver.name} turns right round.` : `${driver.name} moves from ${low} to ${high}. ${ends}`;
    return data.transmissions.length ? `${turn} The transmission angle is at least ${Math.min(...this.samples.map(transmission)).toFixed(0)}°.` : turn;
  }
}

window.mechanism = new Page(document.querySelector("main"));
