// The picture of a mechanism, and diagrams: the part of html_page.js that draws.

// Corners of the convex hull, anticlockwise.
function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (list) => {
    const chain = [];
    for (const p of list) {
      while (chain.length > 1) {
        const [a, b] = chain.slice(-2);
        if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 1e-9) break;
        chain.pop();
      }
      chain.push(p);
    }
    return chain.slice(0, -1);
  };
  const all = [...half(sorted), ...half(sorted.reverse())];
  return all.length ? all : points.slice(0, 1);
}

// The outline at a distance round points: a disc, a rounded bar or a rounded plate.
function outline(points, radius) {
  const corners = hull(points), angles = (from, to, n) => range(n + 1).map((k) => from + (to - from) * k / n);
  const at = (p, a) => [p[0] + radius * Math.cos(a), p[1] + radius * Math.sin(a)];
  if (corners.length === 1) return angles(0, TURN, 32).map((a) => at(corners[0], a));
  return corners.flatMap((p, k) => {
    const before = corners.at(k - 1), after = corners[(k + 1) % corners.length];
    const start = Math.atan2(before[0] - p[0], p[1] - before[1]), stop = Math.atan2(p[0] - after[0], after[1] - p[1]);
    return angles(start, start + mod(stop - start, TURN), 10).map((a) => at(p, a));
  });
}

function distance(p, a, b) {
  const d = minus(b, a), part = clamp(dot(minus(p, a), d) / (dot(d, d) || 1), 0, 1);
  return [size(minus(p, add(a, d, part))), part];
}

class Picture {
  constructor(svg) {
    this.svg = svg;
    this.parts = Object.fromEntries(["curve", "mechanism", "point", "names"].map((name) => [name, svg.querySelector("." + name)]));
    const layered = [...data.plates.map((plate, body) => ({...plate, body, layer: data.body_layer, closed: true})), ...data.shapes].sort((a, b) => a.layer - b.layer);
    this.shapes = layered.map((shape) => {
      const node = element(this.parts.mechanism, "path"), colour = data.bodies[shape.body]?.colour;
      Object.assign(node.style, {strokeLinejoin: "round"});
      const style = shape.style ?? {"fill": colour, "fill-opacity": 0.35, "stroke": colour, "stroke-width": 1.6};
      for (const [name, value] of Object.entries(style)) node.style.setProperty(name, value);
      return {...shape, node};
    });
    this.labels = data.bodies.map(({name, colour}) => {
      const node = element(this.parts.names, "text", {}, name);
      node.style.fill = colour;
      return node;
    });
  }

  // Make room for the motion; the scale stays the same while it fits.
  fit(samples, curve) {
    this.tracks = new Map();
    for (const {track} of this.shapes) {
      if (!track || this.tracks.has(track.line)) continue;
      const travel = samples.map((sample) => { const e = axis(sample, track.line); return dot(minus(point(sample, track.follower), point(sample, track.line)), e) / size(e); });
      this.tracks.set(track.line, [Math.min(...travel), Math.max(...travel)]);
    }
    this.firstTracks ??= this.tracks;
    const need = [Infinity, Infinity, -Infinity, -Infinity], margin = 2 * data.unit;
    const include = ([x, y]) => [x - margin, y - margin, x + margin, y + margin].forEach((edge, k) => { need[k] = k < 2 ? Math.min(need[k], edge) : Math.max(need[k], edge); });
    curve.forEach(include);
    samples.forEach((sample, k) => { if (k % FIT_STEP === 0 || k === samples.length - 1) this.shapes.forEach((shape) => this.places(shape, sample).forEach(include)); });
    const old = this.box, area = ([a, b, c, d]) => (c - a) * (d - b);
    if (!old || old.some((edge, k) => k < 2 ? need[k] < edge : need[k] > edge) || area(old) > 1.8 * area(need)) this.box = need;
  }

  // Set the size in pixels, and the map from the plane of the picture to pixels.
  scale() {
    const [x0, y0, x1, y1] = this.box, width = this.svg.clientWidth || 600;
    const height = width * clamp((y1 - y0) / (x1 - x0), 0.5, 0.95);
    this.perUnit = Math.min(width / (x1 - x0), height / (y1 - y0));
    const [left, top] = [(width - this.perUnit * (x1 - x0)) / 2, (height - this.perUnit * (y1 - y0)) / 2];
    this.px = ([x, y]) => [left + (x - x0) * this.perUnit, top + (y1 - y) * this.perUnit];
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    [this.width, this.height] = [width, height];
  }

  at(event) {
    const box = this.svg.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  // A length along a slide, moved with the ends of what is travelled.
  stretched(track, a) {
    const [[low0, high0], [low, high]] = [this.firstTracks, this.tracks].map((x) => x.get(track.line));
    const part = high0 > low0 ? clamp((a - low0) / (high0 - low0), 0, 1) : 0.5;
    return a + (1 - part) * (low - low0) + part * (high - high0);
  }

  places(shape, sample) {
    if (shape.anchors) return outline(shape.anchors.map((k) => flat(point(sample, k))), shape.radius);
    if (shape.anchor !== undefined) {
      const start = flat(point(sample, shape.anchor)), e = shape.screen ? [1, 0] : flat(axis(sample, shape.anchor));
      const scale = (shape.screen ? 1 : sample.motion.sizes[shape.anchor]) / size(e);
      return shape.points.map(([a, b]) => {
        const along = shape.track ? this.stretched(shape.track, a) : a;
        return [start[0] + scale * (along * e[0] - b * e[1]), start[1] + scale * (along * e[1] + b * e[0])];
      });
    }
    let [p, q] = [0, 1].map((k) => shape.ends ? flat(point(sample, shape.ends[k])) : [0, 0]);
    const along = (k, lengths) => { const e = axis(sample, k); return lengths.map((a) => flat(add(point(sample, k), e, a / size(e)))); };
    if (shape.axis !== undefined) [p, q] = along(shape.axis, [-shape.reach, shape.reach]);
    else if (shape.track) [p, q] = along(shape.track.line, this.tracks.get(shape.track.line).map((a, k) => a + (k ? 1 : -1) * shape.margin));
    const d = minus(q, p), length = size(d), e = length ? d.map((x) => x / length) : [1, 0];
    return shape.points.map(([part, a, b]) => [p[0] + part * d[0] + a * e[0] - b * e[1], p[1] + part * d[1] + a * e[1] + b * e[0]]);
  }

  show(sample, curve, mark) {
    this.scale();
    for (const shape of this.shapes) shape.node.setAttribute("d", path(this.places(shape, sample).map(this.px), shape.closed));
    this.parts.curve.setAttribute("d", path(curve.map(this.px)));
    const spot = this.px(mark);
    this.parts.point.setAttribute("transform", `translate(${spot[0].toFixed(1)} ${spot[1].toFixed(1)})`);
    this.name(sample, spot);
  }

  // Names of bodies stand beside their middle, where nothing else is written.
  name(sample, spot) {
    const taken = [[spot[0] - 9, spot[1] - 9, spot[0] + 9, spot[1] + 9]];
    for (const k of range(data.anchors.length)) {
      const [x, y] = this.px(flat(point(sample, k)));
      taken.push([x - 5, y - 5, x + 5, y + 5]);
    }
    this.labels.forEach((node, body) => {
      const held = data.plates[body].anchors.map((k) => this.px(flat(point(sample, k))));
      const [x, y] = [0, 1].map((c) => held.reduce((sum, p) => sum + p[c], 0) / held.length);
      const half = 4 + 3.6 * data.bodies[body].name.length, gap = 1.15 * data.unit * this.perUnit + 7;
      const spots = [[0, -gap], [0, gap + 9], [half + gap, 5], [-half - gap, 5], [0, -gap - 16], [0, gap + 25]];
      const boxes = spots.map(([dx, dy]) => {
        const [cx, cy] = [clamp(x + dx, half, this.width - half), clamp(y + dy, 14, this.height - 4)];
        return [cx - half, cy - 12, cx + half, cy + 3];
      });
      const covered = (box) => taken.filter((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]).length;
      const box = boxes.reduce((best, next) => covered(next) < covered(best) ? next : best);
      taken.push(box);
      node.setAttribute("x", (box[0] + half).toFixed(1));
      node.setAttribute("y", (box[1] + 12).toFixed(1));
    });
  }

  // The body nearest to a place in pixels, and a point of it between two anchors.
  hit(sample, place) {
    let best = null;
    data.plates.forEach(({anchors}, body) => {
      for (const i of anchors) for (const j of anchors) {
        const [away, part] = distance(place, this.px(flat(point(sample, i))), this.px(flat(point(sample, j))));
        if (away < (best?.away ?? REACH_PX)) best = {away, body, s: add(local(sample, i), minus(local(sample, j), local(sample, i)), part)};
      }
    });
    return best;
  }
}

// --- diagrams over the value of a driver ---

class Diagram {
  constructor(root, title, {ends = null, limit = null, unit = ""}) {
    Object.assign(this, {title, ends, limit, unit, svg: element(root, "svg", {role: "img", "aria-label": title})});
  }

  // `points`: pairs (value of the driver, quantity) in order; `now`: the pair of the pose shown; `span`: ends of the axis.
  show(points, now, span, turns) {
    const svg = this.svg, width = svg.clientWidth || 400, height = clamp(0.42 * width, 150, 200);
    const frame = {left: 46, right: width - 14, top: 26, bottom: height - 24};
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const middle = points.map((p) => p[1]).filter(Number.isFinite).sort((a, b) => a - b), most = Math.min(middle.at(-1) ?? 1, 6 * (middle[middle.length >> 1] ?? 1)) || 1;
    const decade = 10 ** Math.floor(Math.log10(most)), step = decade * [0.25, 0.5, 0.75, 1, 1.5, 2.5].find((x) => x * decade * 4 >= most);
    const [low, high] = this.ends ?? [0, 4 * step], ticks = this.ends ? [0, 30, 60, 90] : range(5).map((k) => k * step);
    const shift = (value) => turns ? mod(degrees(value), 360) : value;
    const [first, last] = turns ? [0, 360] : span;
    const x = (value) => frame.left + (value - first) / (last - first || 1) * (frame.right - frame.left);
    const y = (value) => frame.bottom - (clamp(value, low, high) - low) / (high - low) * (frame.bottom - frame.top);
    element(svg, "text", {x: 4, y: 14}, this.title);
    for (const tick of ticks) {
      element(svg, "path", {class: tick ? "axis" : "zero", d: `M${frame.left} ${y(tick)}H${frame.right}`});
      element(svg, "text", {x: frame.left - 6, y: y(tick) + 4, "text-anchor": "end"}, number(tick));
    }
    for (const k of range(5)) {
      const value = first + k / 4 * (last - first);
      element(svg, "path", {class: "axis", d: `M${x(value)} ${frame.top}V${frame.bottom}`});
      element(svg, "text", {x: x(value), y: frame.bottom + 16, "text-anchor": k ? k < 4 ? "middle" : "end" : "start"}, turns ? `${value}°` : String(Number(value.toPrecision(3))));
    }
    if (this.limit !== null) element(svg, "path", {class: "limit", d: `M${frame.left} ${y(this.limit)}H${frame.right}`});
    // A turn that goes past 360° goes on at 0°.
    const pieces = [[]];
    points.map(([value, quantity]) => [x(shift(value)), y(quantity)]).forEach((p, k, all) => {
      if (k && turns && Math.abs(p[0] - all[k - 1][0]) > (frame.right - frame.left) / 2) {
        const up = all[k - 1][0] > p[0];
        pieces.at(-1).push([up ? frame.right : frame.left, p[1]]);
        pieces.push([[up ? frame.left : frame.right, p[1]]]);
      }
      pieces.at(-1).push(p);
    });
    element(svg, "path", {class: "line", d: pieces.map((p) => path(p)).join("")});
    if (!now) return;
    element(svg, "text", {x: frame.right, y: 14, "text-anchor": "end"}, `now ${number(now[1])}${this.unit}`);
    element(svg, "path", {class: "now", d: `M${x(shift(now[0]))} ${frame.top}V${frame.bottom}`});
    element(svg, "circle", {class: "mark", cx: x(shift(now[0])), cy: y(now[1]), r: 3.5});
  }
}
