//! A handler's log lines. They appear in the daemon's log with topic, job and attempt. Lines beyond
//! the topic's limit (sandbox.log) are dropped and counted.

import { line } from "./abi";

/** The log, one function a level. */
export namespace log {
  /** Logs at level error. */
  export function error(text: string): void {
    line(0, text);
  }

  /** Logs at level warn. */
  export function warn(text: string): void {
    line(1, text);
  }

  /** Logs at level info. */
  export function info(text: string): void {
    line(2, text);
  }

  /** Logs at level debug. */
  export function debug(text: string): void {
    line(3, text);
  }

  /** Logs at level trace. */
  export function trace(text: string): void {
    line(4, text);
  }
}
