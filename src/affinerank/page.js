for (const box of document.querySelectorAll("[data-figure]")) {
  const text = document.getElementById(box.dataset.figure).textContent;
  const options = { ast: true, actions: false, renderer: "svg" };
  vegaEmbed(box, JSON.parse(text), options).catch((fault) => {
    box.textContent = "The figure could not be drawn: " + fault;
    console.error(fault);
  });
}
