import { randomBytes } from "node:crypto";
import { v7 } from "uuid";

/** A new run id: a UUIDv7, so that ids sort by the time they were made. */
export function newRunId(): string {
  return v7();
}

/** 128 random bits as 22 characters of base64url: for claims and names that must never meet twice. */
export function newNonce(): string {
  return randomBytes(16).toString("base64url");
}
