/** What stands where a secret stood. Safe inside JSON text. */
export const REDACTED = "[redacted]";

/** Shorter values would be found inside ordinary words. */
const MIN_SECRET_LENGTH = 6;

/** Names of fields whose value is a secret whatever it looks like. Compared without `-`, `_` and case. */
const SECRET_FIELDS: ReadonlySet<string> = new Set([
  "authorization",
  "proxyauthorization",
  "cookie",
  "setcookie",
  "password",
  "passwd",
  "passphrase",
  "secret",
  "clientsecret",
  "apikey",
  "xapikey",
  "accesstoken",
  "refreshtoken",
  "idtoken",
  "sessiontoken",
  "authtoken",
  "token",
  "bearer",
  "privatekey",
  "accesskey",
  "secretkey",
  "credential",
  "credentials",
  "openaiapikey",
  "redispassword",
]);

interface Pattern {
  readonly find: RegExp;
  readonly replacement: string;
}

/**
 * What gives a secret away without knowing it. None looks back more than a word, none nests a
 * repetition, so each is linear in the text; none matches a line break.
 */
const PATTERNS: readonly Pattern[] = [
  {
    find: /((?:proxy-)?authorization["']?\s{0,4}[:=]\s{0,4}["']?)(?!\[redacted\])[^\r\n]+/gi,
    replacement: `$1${REDACTED}`,
  },
  { find: /((?:set-)?cookie["']?\s{0,4}[:=]\s{0,4}["']?)(?!\[redacted\])[^\r\n]+/gi, replacement: `$1${REDACTED}` },
  {
    find: /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g,
    replacement: REDACTED,
  },
];

/** Patterns that never match a quote or a backslash: they may run over JSON text. */
const JSON_SAFE_PATTERNS: readonly Pattern[] = [
  { find: /\b(bearer|basic)(\s{1,4}|%20)[A-Za-z0-9._~+/=-]{6,}/gi, replacement: `$1 ${REDACTED}` },
  {
    find: /\b([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/?#"'\\<>@]{0,256}:(?!\d{1,5}[/?#])[^\s"'\\<>]{1,512}@/gi,
    replacement: `$1${REDACTED}@`,
  },
  { find: /\b(?:sk|rk|pk)-[A-Za-z0-9_-]{8,}/g, replacement: REDACTED },
  {
    find: /\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16})/g,
    replacement: REDACTED,
  },
  { find: /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*/g, replacement: REDACTED },
  {
    find: /\b((?:api[-_]?key|access[-_]?token|refresh[-_]?token|client[-_]?secret|secret|token|password|passwd)\s{0,4}[=:]\s{0,4})(?!\[redacted\])[^\s"'\\,;&<>]{4,}/gi,
    replacement: `$1${REDACTED}`,
  },
];

/** A string field of JSON text. */
const JSON_FIELD = /"([A-Za-z0-9_-]{4,40})":"((?:[^"\\]|\\.)*)"/g;

/** A secret is a field of this name, whatever its value. */
export function isSecretField(name: string): boolean {
  return SECRET_FIELDS.has(name.replaceAll(/[-_]/g, "").toLowerCase());
}

/** Takes secrets out of text: those it was told, and what looks like one. Never throws. */
export class Scrubber {
  readonly #secrets = new Set<string>();
  #longest = 0;

  constructor(secrets: Iterable<string> = []) {
    for (const secret of secrets) this.register(secret);
  }

  /**
   * Makes a value known as a secret, also in its URL-encoded and JSON-escaped form.
   *
   * @param secret Shorter than 6 characters: ignored, it would be found inside ordinary words.
   */
  register(secret: string): void {
    if (secret.length < MIN_SECRET_LENGTH) return;
    for (const form of [secret, encodeUrl(secret), JSON.stringify(secret).slice(1, -1)]) {
      this.#secrets.add(form);
      this.#longest = Math.max(this.#longest, form.length);
    }
  }

  /** Length of the longest secret that it was told, in characters; at least 512, for what looks like one. */
  get longestSecret(): number {
    return Math.max(this.#longest, 512);
  }

  /** @returns The text with {@link REDACTED} in place of each secret. */
  scrubText(text: string): string {
    let clean = this.#replaceKnown(text);
    for (const { find, replacement } of PATTERNS) clean = clean.replace(find, replacement);
    for (const { find, replacement } of JSON_SAFE_PATTERNS) clean = clean.replace(find, replacement);
    return clean;
  }

  /** The same for a line of JSON, which stays JSON: also the values of secret fields. */
  scrubJsonLine(line: string): string {
    let clean = this.#replaceKnown(line);
    for (const { find, replacement } of JSON_SAFE_PATTERNS) clean = clean.replace(find, replacement);
    return clean.replace(JSON_FIELD, (field, name: string) =>
      isSecretField(name) ? `"${name}":"${REDACTED}"` : field,
    );
  }

  #replaceKnown(text: string): string {
    let clean = text;
    for (const secret of this.#secrets) {
      if (clean.includes(secret)) clean = clean.replaceAll(secret, REDACTED);
    }
    return clean;
  }
}

/** Lone surrogates have no URL form. */
function encodeUrl(secret: string): string {
  try {
    return encodeURIComponent(secret);
  } catch {
    return secret;
  }
}
