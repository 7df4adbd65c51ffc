// This script makes the page of the JSON in #data, whose form is chart.Document (document.go). All texts in it are hostile: they
// become text nodes, never HTML. It is plain, so that it needs no build step. Lines, bars and axes are drawn by uPlot.
(() => {
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');

// make makes an element with texts and elements in it.
function make(tag, className, ...inside) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...inside.filter(x => x !== undefined && x !== null && x !== ''));
  return e;
}

// --- numbers ---

const number = (v, digits = 5) => v.toLocaleString('en-US', Number.isInteger(v) ? {} : {maximumSignificantDigits: digits});

function duration(ms, digits = 4) {
  const size = Math.abs(ms);
  if (size === 0) return '0';
  if (size < 1e-3) return number(ms * 1e6, digits) + ' ns';
  if (size < 1) return number(ms * 1e3, digits) + ' µs';
  if (size < 1e3) return number(ms, digits) + ' ms';
  return number(ms / 1e3, digits) + ' s';
}

// show formats a value of an axis' unit.
function show(axis, v, digits) {
  if (v === null || v === undefined) return '–';
  switch (axis.unit) {
  case 's': return duration(v * 1e3, digits);
  case 'ms': return duration(v, digits);
  case 'ratio': return number(100 * v, digits || 4) + ' %';
  }
  return number(v, digits);
}

// place formats a value of a graph's X axis, or the stretch that it stands for.
function place(graph, v) {
  const {x} = graph;
  if (v === null || v === undefined || !x.step) return show(x, v);
  if (x.log) return show(x, v / Math.sqrt(x.step), 3) + ' to ' + show(x, v * Math.sqrt(x.step), 3);
  return show(x, Math.max(0, v - x.step / 2)) + ' to ' + show(x, v + x.step / 2);
}

// --- colours ---

// colour reads a colour of the style, which differs between light, dark and print.
const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const kindColours = 6;
const seriesColour = (series, i) => series.bad ? 'bad' : series.style === 'dashed' ? 'text' : 'c' + i % kindColours;

function channels(name) {
  const hex = colour(name);
  return [1, 3, 5].map(i => parseInt(hex.length === 4 ? hex[(i + 1) / 2].repeat(2) : hex.slice(i, i + 2), 16));
}

// shades returns colours from low to high for shares 0 to 1.
function shades() {
  const low = channels('low'), high = channels('high');
  return share => `rgb(${low.map((c, i) => Math.round(c + (high[i] - c) * share)).join(' ')})`;
}

// --- axes ---

const axisWidth = 62, rowHeight = 15;

// logSplits are round numbers between two ends, not many more than there is room for: 1, 2 and 5 of each decade, or decades alone.
function logSplits(min, max, room) {
  const decades = Math.log10(max / min), out = [], every = Math.ceil(decades / room);
  for (let e = Math.floor(Math.log10(min)); e <= Math.log10(max); e++) {
    for (const m of 3 * decades <= room ? [1, 2, 5] : [1]) {
      const v = m * 10 ** e;
      if (v >= min && v <= max && (every < 2 || e % every === 0)) out.push(v);
    }
  }
  return out;
}

// ends returns the range of a scale for an axis whose values lie between min and max.
function ends(axis, min, max, fromZero) {
  if (min === null || min === undefined || !isFinite(min)) [min, max] = axis.log ? [1, 10] : [0, 1];
  if (axis.log) return [axis.from ?? min / 1.15, axis.to ?? max * 1.15];
  if (fromZero) [min, max] = [Math.min(0, min), Math.max(max * 1.06, max === 0 ? 1 : max)];
  if (min === max) max = min + 1;
  const pad = fromZero ? 0 : (max - min) / 40;
  [min, max] = [min - pad, max + pad];
  return [axis.from ?? min, axis.to ?? max];
}

// reached widens a range by the ends of the intervals that are shown, which no series has as values.
function reached(u, graph, min, max) {
  const {min: from, max: to} = u.series[0]; // the places that are shown; null before any are
  for (const s of graph.series) {
    for (const ends of [s.low, s.high]) {
      const shown = (ends || []).filter((v, k) => v !== null && (!graph.y.log || v > 0) && !(from !== null && graph.at[k] < from || to !== null && graph.at[k] > to));
      if (shown.length && min !== null) [min, max] = [Math.min(min, ...shown), Math.max(max, ...shown)];
    }
  }
  return [min, max];
}

// zoomed reports whether two ends are a part that the user chose, and not all places.
const zoomed = (u, min, max) => u.data[0][0] !== u.data[0].at(-1) && (min !== u.data[0][0] || max !== u.data[0].at(-1));

function axisOf(axis, scale, more) {
  return {
    scale, stroke: () => colour('quiet'), font: '11px system-ui, sans-serif', gap: 4,
    grid: {stroke: () => colour('line'), width: 1}, ticks: {show: false},
    values: (u, at) => at.map(v => v === null ? '' : show(axis, v, 4)),
    ...(axis.log ? {splits: (u, i, min, max) => logSplits(min, max, scale === 'x' ? (u.width - 100) / 54 : (u.height - 50) / 14), filter: (u, at) => at} : {}),
    ...(axis.whole ? {incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000, 100000]} : {}),
    ...more,
  };
}

// --- graphs of series ---

// columns are what uPlot draws: the places, and each series.
function columns(graph) {
  const positive = (axis, v) => axis.log && v <= 0 ? null : v;
  if (graph.rows) {
    const at = graph.at || [graph.x.from, graph.x.to];
    return [at, at.map(() => null)];
  }
  const drawn = graph.series.map(s => s.values.map(v => positive(s.share ? {} : graph.y, v)));
  if (graph.stacked) {
    for (let i = drawn.length - 2; i >= 0; i--) drawn[i] = drawn[i].map((v, k) => (v || 0) + (drawn[i + 1][k] || 0));
  }
  return [graph.at.map(v => positive(graph.x, v)), ...drawn];
}

function seriesOf(graph) {
  return graph.series.map((s, i) => {
    const name = seriesColour(s, i), stroke = () => colour(name);
    const out = {
      label: s.name, scale: s.share && graph.series.length > 1 ? 'share' : 'y', stroke, width: 1.5, spanGaps: !s.gaps,
      points: {show: s.style === 'points' || !s.style && s.gaps && s.values.includes(null), size: s.style === 'points' ? 8 : 4, fill: stroke},
      value: (u, v, k, idx) => idx === null || idx === undefined ? '' : show(s.share ? {unit: 'ratio'} : graph.y, s.values[idx]),
    };
    if (s.style === 'dashed') out.dash = [6, 4];
    if (s.style === 'behind') Object.assign(out, {stroke: () => stroke() + '55', width: 5});
    if (s.style === 'bars') Object.assign(out, {paths: uPlot.paths.bars({size: [1, Infinity], align: 0, gap: 1}), fill: stroke, width: 0, points: {show: false}});
    if (s.style === 'dots') Object.assign(out, {paths: () => null, points: {show: true, size: s.values.length > 64 ? 3.5 : 10, width: 0, fill: () => stroke() + (s.values.length > 64 ? 'a0' : ''), space: 0}});
    return out;
  });
}

// whiskers draws the intervals of series, and the names of their points.
function whiskers(u, graph) {
  const {ctx} = u, ratio = devicePixelRatio;
  let before = -Infinity;
  graph.series.forEach((s, i) => u.data[0].forEach((x, k) => {
    const name = (s.names || [])[k];
    if (x === null || !(s.low || name)) return;
    const left = u.valToPos(x, 'x', true), [low, high] = [s.low, s.high].map(ends => ends && ends[k] !== null ? u.valToPos(ends[k], 'y', true) : null);
    ctx.fillStyle = colour(seriesColour(s, i));
    if (low !== null && high !== null) {
      ctx.fillRect(left - ratio, high, 2 * ratio, low - high);
      for (const end of [low, high]) ctx.fillRect(left - 4 * ratio, end - ratio / 2, 8 * ratio, ratio);
    }
    if (!name || u.data[i + 1][k] === null) return;
    ctx.fillStyle = colour('quiet');
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = left > u.bbox.left + 0.8 * u.bbox.width ? 'right' : 'left';
    ctx.fillText(name, left + (ctx.textAlign === 'right' ? -7 : 7) * ratio, u.valToPos(u.data[i + 1][k], 'y', true) + (left - before < 30 * ratio ? 17 : -7) * ratio);
    before = left;
  }));
}

// nearest returns which point of a series is nearest to the cursor, if it is near.
function nearest(u, series) {
  const {left, top} = u.cursor;
  let best = null, least = 900;
  for (let i = 0; i < u.data[0].length; i++) {
    const x = u.data[0][i], y = u.data[Math.max(1, series)][i];
    if (x === null || y === null || x < u.scales.x.min || x > u.scales.x.max) continue;
    const distance = (u.valToPos(x, 'x') - left) ** 2 + (u.valToPos(y, 'y') - top) ** 2;
    if (distance < least) [best, least] = [i, distance];
  }
  return best;
}

// shade draws the marked parts of the X axis behind everything: red, those of kind 1 grey, those of kind 2 as lines.
function shade(u, graph) {
  for (const span of graph.spans || []) {
    u.ctx.fillStyle = colour(['badpaper', 'line', 'quiet'][span.k]);
    const from = Math.max(u.bbox.left, u.valToPos(span.f, 'x', true)), end = span.k === 2 ? from + 2 : u.valToPos(span.t, 'x', true);
    const to = Math.min(u.bbox.left + u.bbox.width, end);
    if (to > from) u.ctx.fillRect(from, u.bbox.top, to - from, u.bbox.height);
  }
}

// nameSpans writes at the top of each marked part what it is, in lines below each other, as far as there is room.
function nameSpans(u, graph) {
  const {ctx, bbox} = u, spans = (graph.spans || []).toSorted((a, b) => a.f - b.f), place = span => u.valToPos(span.f, 'x', true);
  ctx.font = `${10.5 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'top';
  ctx.fillStyle = colour('text');
  const lines = 3;
  spans.forEach((span, i) => {
    const from = Math.max(bbox.left, place(span)) + 4 * devicePixelRatio, room = Math.min(bbox.left + bbox.width, i + lines < spans.length ? place(spans[i + lines]) : Infinity) - from;
    let text = span.n || span.h || '';
    while (text && ctx.measureText(text).width > room) text = text.length > 4 ? text.slice(0, -2).trimEnd() + '…' : '';
    ctx.fillText(text, from, bbox.top + (2 + 12 * (i % lines)) * devicePixelRatio);
  });
}

// --- graphs of rows ---

// heatRange are the least and the most of all values that are drawn.
function heatRange(graph) {
  const all = graph.heat.flat().filter(v => v !== null && (!graph.y.log || v > 0));
  const min = graph.y.log ? all.reduce((a, b) => Math.min(a, b), Infinity) : 0;
  return all.length ? [min, graph.y.to ?? all.reduce((a, b) => Math.max(a, b), 0)] : [0, 0];
}

// drawRows draws a heat map or lanes, whose row i lies between i and i + 1.
function drawRows(u, graph) {
  const {ctx, bbox} = u, half = (graph.x.step || 0) / 2, shadeOf = shades();
  const [min, max] = graph.heat ? heatRange(graph) : [];
  const share = v => graph.y.log ? (max > min ? Math.log(v / min) / Math.log(max / min) : 1) : max ? v / max : 0;
  const box = (row, from, to, fill) => {
    const left = Math.max(bbox.left - 9, u.valToPos(from, 'x', true)); // a canvas draws nothing that ends at 1e160
    const right = Math.min(bbox.left + bbox.width + 9, u.valToPos(to, 'x', true));
    const top = u.valToPos(row, 'y', true), bottom = u.valToPos(row + 1, 'y', true), gap = (bottom - top) > 8 ? 1 : 0;
    ctx.fillStyle = fill;
    ctx.fillRect(left, top + gap, Math.max(1, right - left + (graph.heat ? 0.5 : 0)), bottom - top - 2 * gap);
  };
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  (graph.heat || []).forEach((values, row) => values.forEach((v, i) => {
    if (v !== null && (!graph.y.log || v > 0)) box(row, graph.at[i] - half, graph.at[i] + half, shadeOf(share(v)));
  }));
  (graph.lanes || []).forEach((pieces, row) => pieces.forEach(p => box(row, p.f, p.t, kindColour(p.k, colour, graph.colours))));
  ctx.restore();
  ctx.fillStyle = colour('paper');
  ctx.textBaseline = 'middle';
  (graph.lanes || []).forEach((pieces, row) => pieces.forEach(p => { // an arrow marks a piece that the axis cuts off
    const y = u.valToPos(row + 0.5, 'y', true);
    ctx.textAlign = 'left';
    if (p.f < graph.x.from) ctx.fillText('◀', bbox.left, y);
    ctx.textAlign = 'right';
    if (p.t > graph.x.to) ctx.fillText('▶', bbox.left + bbox.width, y);
  }));
}

// kindColour is the colour of a kind of pieces.
const pieceColours = ['quiet', 'c3', 'c0', 'c1', 'bad', 'c2'];
const kindColour = (kind, read = colour, colours = pieceColours) => read(colours[kind % colours.length]);

function describeRow(u, graph) {
  const row = Math.floor(u.posToVal(u.cursor.top, 'y')), at = u.posToVal(u.cursor.left, 'x');
  if (row < 0 || row >= graph.rows.length) return '';
  if (graph.heat) return `${graph.rows[row]} · ${place(graph, graph.at[u.cursor.idx])}: ${show(graph.y, graph.heat[row][u.cursor.idx])}`;
  const piece = graph.lanes[row].findLast(p => p.f <= at && at <= p.t);
  return graph.rows[row] + ' · ' + show(graph.x, at) + (piece ? ': ' + (piece.h || graph.kinds[piece.k]) : '');
}

function rowsAxis(graph, width) {
  const size = Math.min(width * 0.42, 16 + 6.2 * graph.rows.reduce((most, name) => Math.max(most, name.length), 6));
  const every = Math.ceil(graph.rows.length / 64), fits = Math.floor((size - 10) / 6.2);
  const short = name => name.length <= fits ? name : '…' + name.slice(name.length - fits + 1);
  return axisOf({}, 'y', {
    size, grid: {show: false}, splits: () => graph.rows.map((_, i) => i + 0.5), filter: (u, at) => at,
    values: (u, at) => at.map((_, i) => i % every ? '' : short(graph.rows[i])),
  });
}

// --- all graphs ---

const plots = [];

function options(graph, width, caption) {
  const rows = graph.rows, dots = !rows && graph.series.some(s => s.style === 'dots');
  const quiet = rows ? quietCaption(graph) : [], named = !rows && graph.x.label && !['time', 'between'].includes(graph.x.label);
  const says = u => {
    if (!(u.cursor.left >= 0)) return caption.replaceChildren(...quiet);
    const at = u.posToVal(u.cursor.left, 'x'), span = (graph.spans || []).find(s => s.f <= at && at <= s.t);
    caption.textContent = rows ? describeRow(u, graph) : span ? span.h : '';
  };
  caption.replaceChildren(...quiet);
  return {
    width, height: rows ? rows.length * Math.max(9, Math.min(22, rowHeight)) + 34 : (graph.wide ? 200 : 165) + (named ? 18 : 0), padding: [8, 14, 0, 0],
    scales: {
      x: {time: false, distr: graph.x.log ? 3 : 1, range: (u, min, max) => zoomed(u, min, max) ? [min, max] : ends(graph.x, min, max, false)},
      y: rows ? {range: [0, rows.length], dir: -1} : {distr: graph.y.log ? 3 : 1, range: (u, min, max) => ends(graph.y, ...reached(u, graph, min, max), true)},
      share: {range: [0, 1]},
    },
    axes: [
      axisOf(graph.x, 'x', {size: 26, space: graph.x.log ? 40 : 74, ...(named ? {label: graph.x.label, labelSize: 18, labelGap: 0, labelFont: '11px system-ui, sans-serif'} : {})}),
      rows ? rowsAxis(graph, width) : axisOf(graph.y, 'y', {size: axisWidth, space: 32}),
      ...(!rows && graph.series.length > 1 && graph.series.some(s => s.share) ? [axisOf({unit: 'ratio'}, 'share', {side: 1, size: 52, space: 32, grid: {show: false}})] : []),
    ],
    series: [{label: graph.x.label || '', value: (u, v) => v === null || v === undefined ? '' : place(graph, v)}, ...(rows ? [{show: false}] : seriesOf(graph))],
    legend: {show: !rows, markers: {width: 0, fill: (u, i) => `var(--${seriesColour(graph.series[i - 1], i - 1)})`}},
    cursor: {
      y: Boolean(rows || dots), drag: {x: true, y: false, dist: 4},
      ...(graph.sync ? {sync: {key: graph.sync, setSeries: false, scales: ['x', null]}} : {}),
      ...(dots ? {dataIdx: nearest} : {}),
    },
    hooks: {drawClear: [u => shade(u, graph)], draw: rows ? [u => drawRows(u, graph)] : [u => whiskers(u, graph), u => nameSpans(u, graph)], setCursor: rows || graph.spans ? [says] : []},
  };
}

// quietCaption explains the colours of rows while nobody points at them.
function quietCaption(graph) {
  const key = (text, fill) => {
    const square = make('span', 'key');
    square.style.background = fill;
    return [square, text];
  };
  if (graph.lanes) return graph.kinds.flatMap((kind, i) => key(kind, kindColour(i, name => `var(--${name})`, graph.colours)));
  const [min, max] = heatRange(graph);
  return max ? [...key(show(graph.y, min, 3), 'var(--low)'), ...key(show(graph.y, max, 3), 'var(--high)')] : ['none'];
}

function figureOf(graph) {
  const holder = make('div'), caption = make('figcaption');
  const extra = graph.rows || graph.spans ? caption : null;
  const plot = {graph, holder, caption, drawn: null}, save = make('button', 'save', 'PNG');
  save.title = 'Save this graph as a picture';
  save.addEventListener('click', () => savePicture(plot));
  plots.push(plot);
  return make('figure', graph.wide ? 'wide' : '', save, make('h3', '', graph.title), graph.note && make('p', 'note', graph.note), holder, extra);
}

// savePicture saves a graph as it is drawn, with its title and the names of its series, on the page's own paper.
function savePicture({graph, drawn}) {
  const from = drawn.ctx.canvas, ratio = devicePixelRatio, head = 30 * ratio, foot = 26 * ratio;
  const to = make('canvas'), ctx = to.getContext('2d');
  Object.assign(to, {width: from.width, height: from.height + head + foot});
  ctx.fillStyle = colour('paper');
  ctx.fillRect(0, 0, to.width, to.height);
  ctx.drawImage(from, 0, head);
  ctx.fillStyle = colour('text');
  ctx.font = `600 ${14 * ratio}px system-ui, sans-serif`;
  ctx.fillText(graph.title, 10 * ratio, 20 * ratio);
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  let left = 10 * ratio;
  const names = graph.rows ? (graph.kinds || []).map((kind, i) => [kind, kindColour(i, colour, graph.colours)]) : graph.series.map((s, i) => [s.name, colour(seriesColour(s, i))]);
  for (const [name, fill] of names) {
    ctx.fillStyle = fill;
    ctx.fillRect(left, to.height - 18 * ratio, 10 * ratio, 10 * ratio);
    ctx.fillStyle = colour('text');
    ctx.fillText(name, left + 15 * ratio, to.height - 9 * ratio);
    left += ctx.measureText(name).width + 32 * ratio;
  }
  const link = make('a');
  link.download = graph.title.toLowerCase().replace(/[^a-z0-9]+/g, '-') + '.png';
  link.href = to.toDataURL();
  link.click();
}

const redraw = () => plots.forEach(p => p.drawn.redraw(false));
const fit = () => plots.forEach(p => {
  const width = p.holder.clientWidth;
  if (width && width !== p.drawn.width) p.drawn.setSize({width, height: p.drawn.height});
});

// --- what is not a graph ---

const isLong = cell => Boolean(cell.t) && cell.t.length > 36;

function cellOf(cell, words, head) {
  const e = make('td', cell.m, cell.t);
  e.dataset.head = head;
  if (words) e.classList.add('words');
  if (cell.h) e.title = cell.h;
  if (isLong(cell)) e.classList.add('long');
  if (!cell.b) return e;
  const bar = make('div', 'bar'), whole = cell.b.at(-1).t;
  for (const p of cell.b) {
    const part = make('span');
    part.style.width = 100 * (p.t - p.f) / whole + '%';
    part.style.background = kindColour(p.k, name => `var(--${name})`);
    part.title = p.h || '';
    bar.append(part);
  }
  e.append(bar);
  return e;
}

// isNumber is true of numbers, with their marks and units, and of what stands where one is missing.
const isNumber = /^([~!<>≥≤±+−\-[(]*\s*\d|[–-]?$)/;

function tableOf(table) {
  const words = table.head.map((_, c) => table.rows.some(row => row[c] && (isLong(row[c]) || !isNumber.test(row[c].t || ''))));
  const head = make('thead', '', make('tr', '', ...table.head.map((t, c) => make('th', words[c] ? 'words' : '', t))));
  const body = make('tbody', '', ...table.rows.map(row => make('tr', '', ...row.map((cell, c) => cellOf(cell, words[c], table.head[c])))));
  return make('div', '', table.title && make('h3', '', table.title), table.note && make('p', 'note', table.note),
    make('div', 'scroll', make('table', table.head.length > 11 ? 'dense' : '', head, body)));
}

function tileOf(tile) {
  return make('div', 'tile ' + (tile.grade || ''), make('span', 'quiet', tile.name), make('b', '', tile.value),
    tile.under && make('span', 'quiet', tile.under), sparkOf(tile.spark || []));
}

// sparkOf draws values as a line from left to right, the least at the bottom if it is below 0, else 0.
function sparkOf(values) {
  const known = values.filter(v => v !== null), most = Math.max(...known), least = Math.min(0, ...known);
  if (known.length < 3 || most === least) return null;
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 100 20');
  svg.setAttribute('preserveAspectRatio', 'none');
  const line = document.createElementNS(svg.namespaceURI, 'path');
  line.setAttribute('d', 'M' + known.map((v, i) => `${100 * i / (known.length - 1)} ${19 - 18 * (v - least) / (most - least)}`).join('L'));
  svg.append(line);
  return svg;
}

function sectionOf(section, i) {
  const inside = [
    ...(section.findings || []).map(f => make('div', 'finding ' + (f.grade || 'plain'), f.word && make('b', '', f.word), ...(f.lines || []).map(t => make('p', '', t)))),
    section.note && make('p', 'note', section.note),
    section.tiles && make('div', 'tiles', ...section.tiles.map(tileOf)),
    section.facts && make('dl', '', ...section.facts.map(([name, value]) => make('div', '', make('dt', '', name), make('dd', '', value)))),
    section.graphs && make('div', 'graphs', ...section.graphs.map(figureOf)),
    section.tables && make('div', 'tables', ...section.tables.map(tableOf)),
  ];
  const whole = section.folded
    ? make('section', '', make('details', '', make('summary', '', section.title), ...inside))
    : make('section', '', section.title && make('h2', '', section.title), ...inside);
  whole.id = 's' + i;
  return whole;
}

// --- the page ---

function contents(sections) {
  const nav = make('nav');
  sections.forEach((section, i) => {
    if (!section.title) return;
    const link = make('a', '', section.title);
    link.href = '#s' + i;
    nav.append(link);
  });
  return nav;
}

const sections = data.sections || [];
page.replaceChildren(make('h1', '', data.title), make('p', 'under', ...(data.under || []).map(t => make('span', '', t))), contents(sections), ...sections.map(sectionOf));
for (const p of plots) p.drawn = new uPlot(options(p.graph, p.holder.clientWidth || 480, p.caption), columns(p.graph), p.holder);
new ResizeObserver(fit).observe(page);
page.addEventListener('toggle', fit, true);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
for (const when of ['beforeprint', 'afterprint']) {
  addEventListener(when, () => {
    document.documentElement.classList.toggle('printing', when === 'beforeprint');
    fit();
    redraw();
  });
}
})();
