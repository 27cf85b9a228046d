/** One tool, `count`, over MCP's stdio transport. Once it has been asked what tools it has, `<itself>.listed` is there. */
export const MCP_SERVER = `const { createInterface } = require("node:readline");
const tool = { name: "count", description: "Counts.", inputSchema: { type: "object", properties: {} } };
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result =
    method === "initialize" ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "gate", version: "1" } }
    : method === "tools/list" ? { tools: [tool] }
    : method === "tools/call" ? { content: [{ type: "text", text: "counted" }] }
    : {};
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
  if (method === "tools/list") require("node:fs").writeFileSync(__filename + ".listed", "");
});
`;
