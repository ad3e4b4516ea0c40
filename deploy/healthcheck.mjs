// The container's healthcheck: 0 while the worker in it answers `/healthz` with 200, else 1.
// A process of its own for each check, so it imports nothing but Node.
import { get } from "node:http";

const port = process.env.SKILLDOCK_METRICS_PORT ?? "9464";
const request = get({ host: "127.0.0.1", port, path: "/healthz", timeout: 4_000, agent: false }, (response) =>
  process.exit(response.statusCode === 200 ? 0 : 1),
);
request.on("timeout", () => request.destroy(new Error("no answer in 4 s")));
request.on("error", (error) => {
  console.error(`/healthz on port ${port}: ${error.message}`);
  process.exit(1);
});
