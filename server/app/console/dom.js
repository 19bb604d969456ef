// Builds and updates the page: elements are described as plain values, and an update changes only what differs, so that
// focus, scroll position and selection stay. Text reaches the page as text nodes and attributes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Describes an element. A tag such as `svg:path` is one of SVG; `props.key` names a child among its neighbours. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: flat(children) };
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== "");
}

/** Makes the children of `parent` those that `children` describes. */
export function patch(parent, children) {
  const wanted = flat([children]);
  const names = wanted.map(nameOf);
  const known = new Map();
  for (const node of parent.childNodes) if (node.described) known.set(node.described, node);
  const keep = new Set(names);
  let at = parent.firstChild;
  wanted.forEach((child, i) => {
    while (at && !keep.has(at.described)) at = drop(at);
    const old = known.get(names[i]);
    const node = old && fits(old, child) ? old : create(child, names[i]);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    if (old && old !== node) {
      if (at === old) at = old.nextSibling;
      drop(old);
    }
    known.delete(names[i]);
    update(node, child);
  });
  while (at) at = drop(at);
}

// A child without a key is named by its position among those without one.
function nameOf(child, index) {
  if (typeof child !== "object") return `#${index}`;
  return child.props.key === undefined ? `${child.tag}#${index}` : `${child.tag}=${child.props.key}`;
}

function fits(node, child) {
  return typeof child === "object" ? node.nodeType === 1 : node.nodeType === 3;
}

function create(child, name) {
  let node;
  if (typeof child !== "object") node = document.createTextNode("");
  else if (child.tag.startsWith("svg:")) node = document.createElementNS(SVG, child.tag.slice(4));
  else node = document.createElement(child.tag);
  node.described = name;
  if (child.props?.widget) node.widget = child.props.widget(node);
  return node;
}

function drop(node) {
  const next = node.nextSibling;
  end(node);
  node.remove();
  return next;
}

function end(node) {
  node.widget?.end?.();
  for (const child of node.childNodes) end(child);
}

function update(node, child) {
  if (typeof child !== "object") {
    if (node.data !== String(child)) node.data = String(child);
    return;
  }
  setProps(node, child.props);
  if (node.widget) node.widget.update(child.props);
  else patch(node, child.children);
}

const OWN = new Set(["key", "widget", "options"]);

function setProps(node, props) {
  const before = node.props ?? {};
  for (const name of Object.keys(before)) if (!(name in props)) setProp(node, name, undefined);
  for (const [name, value] of Object.entries(props)) {
    if (!OWN.has(name) && before[name] !== value) setProp(node, name, value);
  }
  node.props = props;
}

function setProp(node, name, value) {
  if (name.startsWith("on")) node[name] = value ?? null;
  else if (name === "value") setValue(node, value);
  else if (value === undefined || value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

// What an operator is typing is not replaced.
function setValue(node, value) {
  if (document.activeElement !== node && node.value !== (value ?? "")) node.value = value ?? "";
}
