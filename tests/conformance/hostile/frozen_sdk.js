// expect: ack
// The objects of the SDK cannot be changed.
import * as sdk from "duebox";
export default () => {
  for (const change of [
    () => { sdk.job.config = () => "x"; },
    () => { sdk.log.info = () => {}; },
    () => { sdk.kv.get = () => "x"; },
    () => { sdk.http.get = () => {}; },
    () => { sdk.push = () => {}; },
    () => { crypto.randomUUID = () => "x"; },
  ]) {
    try {
      change();
    } catch {
      continue;
    }
    return "drop";
  }
};
