// The page "Drag a linkage". `four_bar` and `slider_crank` are programs of jaxmbs, see docs/site/dragged.py: each takes the
// linkage at one crank angle, and returns a turn of it. Here they are drawn and dragged.
import {four_bar} from "./four_bar.js";
import {slider_crank} from "./slider_crank.js";
import {Diagram, Picture, WIDTH, HEIGHT, element} from "./drawing.js";

const STEP = 2 * Math.PI / 120;
const CONVERGED = 0, NOT_ASSEMBLED = 1, LOCKED_UP = 3, SINGULAR = 4;
const SHORTEST = 0.2, SECONDS_PER_TURN = 5;
const KINDS = {
  four_bar: {
    compute: four_bar, lengths: ["crank", "coupler", "rocker"], distance: "ground", speed: "speed of rocker / crank",
    start: {O: [2.4, 1.7], A: [3.4, 3.3], B: [6.6, 4.8], C: [6.9, 1.7], P: [4.4, 5.5]},
  },
  slider_crank: {
    compute: slider_crank, lengths: ["crank", "rod"], distance: "offset", speed: "speed of slider / crank",
    start: {O: [2.2, 2.9], A: [3.4, 4.3], B: [7.5, 2.9], C: [7.5, 2.9], P: [5.2, 4.8]},
  },
};
const away = (p, q) => [q[0] - p[0], q[1] - p[1]];
const length = (p, q) => Math.hypot(...away(p, q));
const direction = (p, q) => Math.atan2(q[1] - p[1], q[0] - p[0]);
const beside = (p, angle, [u, v]) => [p[0] + Math.cos(angle) * u - Math.sin(angle) * v, p[1] + Math.sin(angle) * u + Math.cos(angle) * v];
const degrees = (angle) => angle * 180 / Math.PI;
const mod = (x, n) => ((x % n) + n) % n;
const whole = (angle) => mod(Math.round(degrees(angle)), 360);

class Linkage {
  constructor(root) {
    this.root = root;
    this.kind = KINDS[root.dataset.linkage];
    this.slides = root.dataset.linkage === "slider_crank";
    this.picture = new Picture(root, this.slides, (name, point) => this.drag(name, point));
    const diagrams = root.appendChild(element("div", {class: "diagrams"}));
    this.speed = new Diagram(diagrams, this.kind.speed, "speed");
    this.transmission = new Diagram(diagrams, "transmission angle, degrees", "transmission", [0, 90], 40);
    this.message = root.appendChild(element("p", {class: "message", role: "status"}));
    this.controls();
    this.reset();
  }

  // -- what one sets --

  controls() {
    const box = this.root.appendChild(element("div", {class: "controls"}));
    this.sliders = {};
    const slider = (name, min, max, step, changed) => {
      const label = box.appendChild(element("label"));
      label.append(name);
      const input = label.appendChild(element("input", {type: "range", min, max, step, "aria-label": name}));
      const output = label.appendChild(element("output"));
      input.addEventListener("input", () => { this.play(false); changed(Number(input.value)); });
      this.sliders[name] = (value, digits, unit) => { input.value = value; output.textContent = value.toFixed(digits) + unit; };
    };
    slider("angle", 0, 360, 3, (value) => this.turnTo(value * Math.PI / 180));
    this.kind.lengths.forEach((name, k) => slider(name, SHORTEST, 8, 0.01, (value) => { this.lengths[k] = value; this.solve(); }));
    slider(this.kind.distance, this.slides ? -3 : SHORTEST, this.slides ? 3 : 8, 0.01, (value) => {
      const [O, C] = this.ground;
      this.ground[1] = this.slides ? [C[0], O[1] + value] : beside(O, direction(O, C), [value, 0]);
      this.solve();
    });
    const buttons = box.appendChild(element("div", {class: "buttons"}));
    this.button = buttons.appendChild(element("button", {type: "button"}));
    this.button.addEventListener("click", () => this.play(!this.playing));
    const again = buttons.appendChild(element("button", {type: "button"}));
    again.textContent = "Reset";
    again.addEventListener("click", () => this.reset());
  }

  reset() {
    this.take(this.kind.start);
    this.play(false);
  }

  // The linkage whose pins are here.
  take({O, A, B, C, P}) {
    this.ground = [O, this.slides ? [C[0], B[1]] : C];
    const ends = this.slides ? [[O, A], [A, B]] : [[O, A], [A, B], [C, B]];
    this.lengths = ends.map((pair) => Math.max(length(...pair), SHORTEST));
    this.point = beside([0, 0], -direction(A, B), away(A, P));
    this.angle = direction(O, A);
    this.near = B;
    this.solve();
  }

  drag(name, [x, y]) {
    this.play(false);
    const pins = this.pins();
    pins[name] = [Math.min(Math.max(x, 0.3), WIDTH - 0.3), Math.min(Math.max(y, 0.3), HEIGHT - 0.3)];
    this.take(pins);
  }

  // -- what is computed --

  // A turn from the present angle; if it ends before, also backwards.
  solve() {
    const forwards = this.half(1), all = forwards.good === 121;
    const backwards = all || forwards.good === 0 ? {good: 0, samples: [], end: CONVERGED} : this.half(-1);
    this.samples = [...backwards.samples.slice(1).reverse(), ...forwards.samples];
    this.place = Math.max(backwards.good - 1, 0);
    this.ends = [backwards.end, forwards.end];
    this.whole = all;
    this.play(this.playing && this.samples.length > 1);
    this.show();
  }

  half(rate) {
    const arrays = [this.ground.flat(), this.lengths, this.point, [this.angle], [rate], this.near].map((x) => Float64Array.from(x));
    const [A, B, P, speed, transmission, status] = this.kind.compute(...arrays);
    const found = status.findIndex((x) => x !== CONVERGED), good = found < 0 ? status.length : found;
    const pair = (points, k) => [points[2 * k], points[2 * k + 1]];
    const samples = Array.from({length: good}, (_, k) => ({
      angle: this.angle + rate * k * STEP, A: pair(A, k), B: pair(B, k), P: pair(P, k), speed: speed[k], transmission: degrees(transmission[k]),
    }));
    return {good, samples, end: found < 0 ? CONVERGED : status[found]};
  }

  // The sample now, between two of those that were computed.
  now() {
    const first = Math.floor(this.place), part = this.place - first, [a, b] = [this.samples[first], this.samples[first + 1] ?? this.samples[first]];
    const mix = (x, y) => Array.isArray(x) ? x.map((z, k) => mix(z, y[k])) : x + part * (y - x);
    return Object.fromEntries(Object.keys(a).map((key) => [key, mix(a[key], b[key])]));
  }

  pins() {
    const [O, C] = this.ground;
    if (this.samples.length) { const {A, B, P} = this.now(); return {O, A, B, C, P}; }
    const A = beside(O, this.angle, [this.lengths[0], 0]);
    return {O, A, B: this.near, C, P: beside(A, direction(A, this.near), this.point)};
  }

  // -- what is moved --

  turnTo(angle) {
    if (!this.samples.length) { this.angle = angle; this.solve(); return; }
    const off = this.samples.map((x) => Math.abs(mod(x.angle - angle + Math.PI, 2 * Math.PI) - Math.PI));
    this.place = off.indexOf(Math.min(...off));
    this.settle();
    this.show();
  }

  // From here on, changes start from what is shown.
  settle() {
    const {angle, B} = this.now();
    [this.angle, this.near] = [angle, B];
  }

  play(on) {
    if (this.playing && !on && this.samples.length) this.settle();
    this.playing = on;
    this.forwards ??= true;
    this.last = null;
    this.button.textContent = on ? "Pause" : "Play";
    this.button.disabled = (this.samples ?? []).length < 2;
    if (on) requestAnimationFrame((time) => this.tick(time));
  }

  tick(time) {
    if (!this.playing) return;
    const end = this.samples.length - 1, moved = this.last === null ? 0 : Math.min(time - this.last, 100) / 1000 / SECONDS_PER_TURN * 120;
    this.last = time;
    this.place += this.forwards ? moved : -moved;
    if (this.whole) this.place = mod(this.place, end);
    else if (this.place >= end || this.place <= 0) {
      this.forwards = this.place <= 0;
      this.place = Math.min(Math.max(this.place, 0), end);
    }
    this.show();
    requestAnimationFrame((next) => this.tick(next));
  }

  // -- what is seen --

  show() {
    const pins = this.pins(), fits = this.samples.length > 0, angle = fits ? this.now().angle : this.angle;
    this.picture.show(pins, this.samples.map((x) => x.P), fits, this.lengths);
    const turn = (key) => this.samples.map((x) => [mod(degrees(x.angle), 360), x[key]]);
    const now = (key) => fits ? [mod(degrees(angle), 360), this.now()[key]] : null;
    this.speed.show(turn("speed"), now("speed"));
    this.transmission.show(turn("transmission"), now("transmission"));
    this.sliders.angle(whole(angle), 0, "°");
    this.kind.lengths.forEach((name, k) => this.sliders[name](this.lengths[k], 2, ""));
    const [O, C] = this.ground;
    this.sliders[this.kind.distance](this.slides ? C[1] - O[1] : length(O, C), 2, "");
    this.message.classList.toggle("bad", !fits);
    this.message.textContent = fits ? this.range() : this.gap(pins);
  }

  range() {
    const smallest = Math.min(...this.samples.map((x) => x.transmission)).toFixed(0);
    if (this.whole) return `The crank turns right round. The transmission angle is ${smallest}° at least.`;
    const [low, high] = [this.samples[0], this.samples.at(-1)].map((x) => whole(x.angle));
    const why = this.ends.map((x) => x === LOCKED_UP ? "locks up" : x === SINGULAR ? "can go on in two ways" : "is lost");
    if (this.samples.length === 1) return `The crank cannot leave ${low}°: the linkage ${why[1]} there.`;
    const ends = why[0] === why[1] ? why[0] : `${why[0]} at the one, and ${why[1]} at the other`;
    return `The crank does not turn right round, only from ${low}° to ${high}°: there the linkage ${ends}.`;
  }

  gap({A, C}) {
    const at = `Cannot be assembled at a crank angle of ${whole(this.angle)}°: `, [, b, c] = this.lengths;
    if (this.slides) return `${at}the rod is too short by ${(Math.abs(C[1] - A[1]) - b).toFixed(2)} to reach the slide.`;
    const d = length(A, C), long = b > c ? "coupler" : "rocker";
    return at + (d > b + c ? `coupler and rocker are too short by ${(d - b - c).toFixed(2)} to meet.` : `the ${long} is too long by ${(Math.abs(b - c) - d).toFixed(2)}.`);
  }
}

for (const root of document.querySelectorAll(".linkage")) root.linkage = new Linkage(root);
