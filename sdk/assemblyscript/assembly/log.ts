//! Log lines of a handler. They appear in the daemon's log with topic, job and attempt; lines over
//! the topic's budget (sandbox.log) are dropped and counted.

import { line } from "./abi";

export namespace log {
  /** Logs what is broken. */
  export function error(text: string): void {
    line(0, text);
  }

  /** Logs what is odd. */
  export function warn(text: string): void {
    line(1, text);
  }

  /** Logs what was done. */
  export function info(text: string): void {
    line(2, text);
  }

  /** Logs for whoever looks into a problem. */
  export function debug(text: string): void {
    line(3, text);
  }

  /** Logs every step. */
  export function trace(text: string): void {
    line(4, text);
  }
}
