// Text whose contrast with the nearest background is below WCAG's 4.5 : 1; disabled fields aside.
() => {
  const parse = (text) => {
    const found = text.match(/rgba?\(([^)]+)\)/);
    const [r, g, b, a = 1] = found[1].split(/[ ,/]+/).map(Number);
    return { r, g, b, a };
  };
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((each) => {
      const share = each / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.a > 0.99) return colour;
    }
    return { r: 255, g: 255, b: 255 };
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || node.closest("script,style,option,[hidden],:disabled")) continue;
    if (!node.checkVisibility || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const inSvg = node instanceof SVGElement;
    const ink = parse(inSvg ? style.fill : style.color);
    const [high, low] = [light(ink), light(ground(node))].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push([walker.currentNode.textContent.trim().slice(0, 40), Number(ratio.toFixed(2))]);
  }
  return found;
}
