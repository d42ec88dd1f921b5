// Runs the dashboard's script outside of a browser: what the frontend would hand to it
// comes on standard input, what it makes of that goes to standard output.

import { readFileSync } from "node:fs";

const { script, strategy, options, devices, ...hass } = JSON.parse(readFileSync(0, "utf8"));
const defined = {};
globalThis.window = globalThis;
globalThis.HTMLElement = class {};
globalThis.customElements = { define: (name, element) => (defined[name] = element) };
console.warn = () => {};
await import(script);

hass.callWS = async ({ type }) => {
  if (type !== "fair_share/devices" || !devices) throw { code: "unknown_command" };
  return devices;
};
const config = await defined[`ll-strategy-${strategy}-fair-share`].generate(options ?? {}, hass);
console.log(JSON.stringify({ config, offered: window.customStrategies }));
