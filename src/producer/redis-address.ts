/** Where Redis is, part by part; a URL says the same in one piece. */
export interface RedisAddress {
  readonly host: string;
  /** Default 6379. */
  readonly port?: number;
  readonly username?: string;
  readonly password?: string;
  /** Default 0. */
  readonly database?: number;
  /** `verify`: TLS with the system's certificates. Default `off`. */
  readonly tls?: "verify" | "off";
}

/** @returns The `redis://` or `rediss://` URL of an address; a URL as it is. */
export function toRedisUrl(redis: string | RedisAddress): string {
  if (typeof redis === "string") return redis;
  const { host, port = 6_379, username = "", password = "", database = 0, tls = "off" } = redis;
  const credentials =
    username === "" && password === "" ? "" : `${encodeURIComponent(username)}:${encodeURIComponent(password)}@`;
  const name = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  return `${tls === "verify" ? "rediss" : "redis"}://${credentials}${name}:${port}/${database}`;
}
