// Applies the chosen colours before the first paint; loaded as a plain script in the head for that reason.
(() => {
  const chosen = localStorage.getItem("tributary-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
