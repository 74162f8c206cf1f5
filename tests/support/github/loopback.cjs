// node -r ./loopback.cjs <server>: keeps a third-party server on 127.0.0.1, whatever address it asks for, on a port that
// the system chooses, whatever it was told, so that no two runs collide. Prints the port: `port 40123`.
const net = require("net");
const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (...args) {
  this.once("listening", () => console.log(`port ${this.address().port}`));
  const [first, ...rest] = args;
  if (typeof first === "number" || /^\d+$/.test(String(first))) {
    const callbacks = rest.filter((arg) => typeof arg === "function");
    return listen.call(this, { port: 0, host: "127.0.0.1" }, ...callbacks);
  }
  if (first && typeof first === "object" && first.port !== undefined && !first.path) {
    return listen.call(this, { ...first, port: 0, host: "127.0.0.1" }, ...rest);
  }
  return listen.apply(this, args);
};
