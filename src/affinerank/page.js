const dark = matchMedia("(prefers-color-scheme: dark)");
const light = "#e4e4e4", line = "#4a505a";
const night = {
  background: "transparent", style: { "group-title": { fill: light } },
  axis: { labelColor: light, titleColor: light, gridColor: line, domainColor: line, tickColor: line },
  legend: { labelColor: light, titleColor: light }, title: { color: light, subtitleColor: light },
  header: { labelColor: light, titleColor: light }, view: { stroke: line },
};

// Colours that a dark page would swallow, half way to white.
function onDark(key, value) {
  if (!/^#[0-9a-f]{6}$/.test(value)) return value;
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(value.slice(i, i + 2), 16));
  if (value === "#000000") return light;
  const half = (part) => Math.round((part + 255) / 2);
  return 0.3 * r + 0.6 * g + 0.1 * b > 95 ? value : `rgb(${half(r)}, ${half(g)}, ${half(b)})`;
}

function draw() {
  for (const box of document.querySelectorAll("[data-figure]")) {
    const text = document.getElementById(box.dataset.figure).textContent;
    const spec = JSON.parse(text, dark.matches ? onDark : undefined);
    if (dark.matches) spec.config = { ...spec.config, ...night };
    const options = { ast: true, actions: false, renderer: "svg" };
    vegaEmbed(box, spec, options).catch((fault) => {
      box.textContent = "The figure could not be drawn: " + fault;
      console.error(fault);
    });
  }
}
draw();
dark.addEventListener("change", draw);
